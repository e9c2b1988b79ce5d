// The same component in Jupyter and marimo, as anywidget wants it.

import { mount } from "./mount";
import { forgetful } from "./state/keep";
import { type Model, ModelTransport } from "./transport/model";
import "./style/widget.css";

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const transport = new ModelTransport(model);
  const stop = mount(el, transport, forgetful);
  // A notebook's own shortcuts must not act on what is typed here.
  const own = (event: KeyboardEvent) => event.stopPropagation();
  el.addEventListener("keydown", own);
  return () => {
    el.removeEventListener("keydown", own);
    stop();
    transport.close();
  };
}

export default { render };
