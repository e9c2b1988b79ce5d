// The top of the page: which data, which example, what to take away, and the theme.

import { useRef, useState } from "preact/hooks";
import type { SourceInfo } from "../protocol";
import { useStudio } from "../state/hooks";
import type { Theme } from "../state/keep";
import { count } from "./pieces";

const KINDS: [SourceInfo["kind"], string][] = [
  ["sample", "Samples"],
  ["file", "Files"],
  ["table", "Tables"],
  ["spark", "Spark"],
];
const THEMES: Theme[] = ["auto", "light", "dark"];

export function Header() {
  const studio = useStudio();
  const { hello, opened, source, theme } = studio;
  const sources = hello.value?.sources ?? [];
  const queries = opened.value?.queries ?? [];
  const info = sources.find((one) => one.id === source.value);
  return (
    <header class="top">
      <h1>
        <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
          <rect width="32" height="32" rx="7" />
          <path d="M8 14V9h16v5" />
          <circle cx="8" cy="21" r="3" />
          <circle cx="16" cy="21" r="3" class="mid" />
          <circle cx="24" cy="21" r="3" />
        </svg>
        Ensue <span class="quiet">studio</span>
      </h1>
      <label>
        <span>Data</span>
        <select
          value={source.value ?? ""}
          onChange={(event) => void studio.turn(event.currentTarget.value)}
        >
          {KINDS.map(([kind, title]) => {
            const some = sources.filter((one) => one.kind === kind);
            return (
              some.length > 0 && (
                <optgroup key={kind} label={title}>
                  {some.map(({ id, name, text }) => (
                    <option key={id} value={id} title={text}>
                      {name}
                    </option>
                  ))}
                </optgroup>
              )
            );
          })}
        </select>
      </label>
      {queries.length > 0 && (
        <label>
          <span>Example</span>
          <select
            value=""
            onChange={(event) => {
              const query = queries[Number(event.currentTarget.value)]?.query;
              event.currentTarget.value = "";
              if (query) studio.take(query);
            }}
          >
            <option value="" disabled>
              Start from…
            </option>
            {queries.map(({ title, text }, i) => (
              <option key={title} value={i} title={text}>
                {title}
              </option>
            ))}
          </select>
        </label>
      )}
      <p class="about quiet" title={info?.text}>
        {opened.value
          ? [
              opened.value.rows === null ? "" : count(opened.value.rows, "row"),
              count(opened.value.columns.length, "column"),
              opened.value.sampled?.text ?? "",
            ]
              .filter(Boolean)
              .join(" · ")
          : ""}
      </p>
      <CopyMenu />
      <label class="theme">
        <span class="unseen">Theme</span>
        <select
          value={theme.value}
          onChange={(event) => {
            theme.value = event.currentTarget.value as Theme;
          }}
        >
          {THEMES.map((one) => (
            <option key={one} value={one}>
              {{ auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[one]}
            </option>
          ))}
        </select>
      </label>
    </header>
  );
}

const COPIES = [
  ["python", "Python"],
  ["sql", "SQL"],
  ["feed", "Feed test"],
  ["link", "Link"],
] as const;

function CopyMenu() {
  const studio = useStudio();
  const [state, setState] = useState("");
  const [text, setText] = useState<string | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  const { asked, source } = studio;
  const copy = async (as: (typeof COPIES)[number][0], name: string) => {
    if (!asked.value || !source.value) return;
    const params = { source: source.value, query: asked.value, as };
    const answer = await studio.tasks.ask("copy", "copy", params);
    if (!answer) return;
    if ("problem" in answer) {
      setText([answer.problem.message, answer.problem.remedy].filter(Boolean).join("\n"));
      dialog.current?.showModal();
      return;
    }
    const made = as === "link" ? linkOf(answer.result.text) : answer.result.text;
    try {
      await navigator.clipboard.writeText(made);
      setState(`${name} copied`);
      studio.say(`${name} copied`);
      setTimeout(() => setState(""), 1800);
    } catch {
      // No clipboard here (a notebook's frame, an old browser): show the text to be copied by hand.
      setText(made);
      dialog.current?.showModal();
    }
  };
  return (
    <div class="copy" role="group" aria-label="Copy as">
      <span class="quiet">{state || "Copy as"}</span>
      <span class="group">
        {COPIES.map(([as, name]) => (
          <button
            key={as}
            type="button"
            disabled={!asked.value}
            onClick={() => void copy(as, name)}
          >
            {name}
          </button>
        ))}
      </span>
      <dialog ref={dialog} aria-label="Copied text">
        <textarea readOnly rows={16} cols={80} value={text ?? ""} aria-label="Text to copy" />
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </div>
  );
}

function linkOf(text: string): string {
  if (!text.startsWith("#")) return text;
  return `${location.origin}${location.pathname}${text}`;
}
