// Light or dark: what the system says, until the switch says otherwise.

import { useEffect, useState } from "preact/hooks";
import { useStudio } from "../state/hooks";

export function useDark(): boolean {
  const theme = useStudio().theme.value;
  const [system, setSystem] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const listener = () => setSystem(query.matches);
    query.addEventListener("change", listener);
    return () => query.removeEventListener("change", listener);
  }, []);
  return theme === "auto" ? system : theme === "dark";
}
