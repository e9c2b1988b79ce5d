// Components get at the studio, and at answers that follow what they ask.

import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import type { Method, Methods, Problem } from "../protocol";
import type { Studio } from "./studio";
import { wasCancelled } from "./tasks";

export const StudioContext = createContext<Studio | null>(null);

export function useStudio(): Studio {
  const studio = useContext(StudioContext);
  if (!studio) throw new Error("a component stands outside the studio");
  return studio;
}

export interface Answered<T> {
  data: T | null;
  problem: Problem | null;
  busy: boolean;
  again: () => void;
}

let slots = 0;

/** The answer to a call, asked anew when its parameters change; null asks nothing. */
export function useAnswer<M extends Method>(
  method: M,
  params: Methods[M]["takes"] | null,
  delay = 0,
): Answered<Methods[M]["gives"]> {
  const studio = useStudio();
  const slot = useRef("");
  if (!slot.current) {
    slots += 1;
    slot.current = `${method}-${slots}`;
  }
  const [round, setRound] = useState(0);
  const [state, setState] = useState<{
    data: Methods[M]["gives"] | null;
    problem: Problem | null;
    busy: boolean;
  }>({ data: null, problem: null, busy: false });
  const asked = params === null ? null : JSON.stringify(params);
  const everything = studio.round.value;

  useEffect(() => {
    if (asked === null) {
      setState({ data: null, problem: null, busy: false });
      return undefined;
    }
    let current = true;
    setState((before) => ({ ...before, busy: true }));
    const timer = setTimeout(async () => {
      const answer = await studio.tasks.ask(slot.current, method, JSON.parse(asked));
      if (!answer || !current) return;
      if ("result" in answer) setState({ data: answer.result, problem: null, busy: false });
      else {
        const data = wasCancelled(answer.problem) ? state.data : null;
        setState({ data, problem: answer.problem, busy: false });
      }
    }, delay);
    return () => {
      current = false;
      clearTimeout(timer);
      studio.tasks.drop(slot.current);
    };
  }, [method, asked, round, everything]);

  return { ...state, again: () => setRound(round + 1) };
}
