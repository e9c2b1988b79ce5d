// The one component, for the page and for notebooks.

import { render } from "preact";
import { StudioContext } from "./state/hooks";
import type { Keeper } from "./state/keep";
import { Studio } from "./state/studio";
import type { Transport } from "./transport/transport";
import { App } from "./ui/app";
import "./style/studio.css";
import "./style/panes.css";

/** Shows the studio in an element; the function that it gives takes it away again. */
export function mount(
  element: HTMLElement,
  transport: Transport,
  keeper: Keeper,
  share: string | null = null,
): () => void {
  const studio = new Studio(transport, keeper);
  render(
    <StudioContext.Provider value={studio}>
      <App />
    </StudioContext.Provider>,
    element,
  );
  void studio.start(share);
  return () => {
    studio.stop();
    render(null, element);
  };
}
