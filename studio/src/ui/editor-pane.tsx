// What is asked: the text in any language, its options, and what it was read as.

import { useState } from "preact/hooks";
import { Code } from "../editor/code";
import type { Language, Option } from "../protocol";
import { useStudio } from "../state/hooks";
import { Label, Notes } from "./pieces";

const LANGUAGES: [Language, string][] = [
  ["pattern", "Pattern"],
  ["sql", "SQL"],
  ["python", "Python"],
  ["sase", "SASE"],
];

export function EditorPane() {
  const studio = useStudio();
  const { shown, draft, written, problem, reading } = studio;
  const known = studio.hello.value?.languages;
  const languages = LANGUAGES.filter(([id]) => !known || known.some((one) => one.id === id));
  const text = written.value;
  const refused = reading.value?.languages[shown.value]?.refused;
  const withOptions = shown.value === "pattern" || shown.value === "sase";
  const place = problem.value?.place;
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const index = languages.findIndex(([id]) => id === shown.value) + step;
    const next = languages[(index + languages.length) % languages.length]!;
    shown.value = next[0];
    document.getElementById(`ensue-language-${next[0]}`)?.focus();
  };
  return (
    <section class="ask pane" aria-label="Pattern">
      <div class="tabs" role="tablist" aria-label="Language" onKeyDown={move}>
        {languages.map(([id, name]) => (
          <button
            key={id}
            id={`ensue-language-${id}`}
            type="button"
            role="tab"
            aria-selected={shown.value === id}
            aria-controls="ensue-text"
            tabIndex={shown.value === id ? 0 : -1}
            onClick={() => {
              shown.value = id;
            }}
          >
            {name}
            {draft.value.language === id && <span class="dot" title="You write in this language" />}
          </button>
        ))}
      </div>
      <div class="scroll">
        <div id="ensue-text" role="tabpanel" aria-labelledby={`ensue-language-${shown.value}`}>
          {text ? (
            <Code
              key={`text-${shown.value}`}
              label={`${LANGUAGES.find(([id]) => id === shown.value)?.[1]} text`}
              field="text"
              read={() => studio.written.value?.text ?? ""}
              language={shown.value}
              problem={draft.value.language === shown.value ? problem.value : null}
              placeholder={shown.value === "pattern" ? "view -> cart+ -> pay" : ""}
              onInput={(typed) => studio.type(typed)}
            />
          ) : (
            <p class="empty">
              {refused ?? "This query is shown here once the text reads without an error."}
            </p>
          )}
        </div>
        {draft.value.language !== shown.value && text && (
          <p class="quiet hint">
            Written from your {draft.value.language} text. Type here to go on in this language.
          </p>
        )}
        <div id="ensue-problem">
          {problem.value && (
            <div class="note bad" role="alert">
              <p>
                {place && place.field !== "text" && <b>{place.field}: </b>}
                {problem.value.message}
              </p>
              {problem.value.remedy && <p class="quiet">{problem.value.remedy}</p>}
            </div>
          )}
        </div>
        <Variables />
        {withOptions && text && <OptionFields />}
        <Notes notes={[...(reading.value?.notes ?? []), ...(studio.opened.value?.notes ?? [])]} />
        <Columns />
      </div>
      <footer>
        <button
          type="button"
          class="primary"
          title="Ctrl+Enter"
          disabled={!studio.opened.value}
          onClick={() => void studio.read(true)}
        >
          Run
        </button>
        <label class="check">
          <input
            type="checkbox"
            checked={studio.live.value}
            onChange={(event) => {
              studio.live.value = event.currentTarget.checked;
              if (studio.live.value) void studio.read();
            }}
          />
          while I type
        </label>
      </footer>
    </section>
  );
}

function Variables() {
  const variables = useStudio().reading.value?.variables ?? [];
  if (!variables.length) return null;
  return (
    <ul class="legend" aria-label="Variables">
      {variables.map(({ name, condition, negative, colour }) => (
        <li key={name} title={condition}>
          <Label name={negative ? `not ${name}` : name} colour={colour} />
          <code>{condition || "any row"}</code>
        </li>
      ))}
    </ul>
  );
}

interface FieldInfo {
  name: Option;
  label: string;
  hint: string;
  lines?: boolean;
  choices?: "columns" | readonly string[];
}

const FIRST: FieldInfo[] = [
  { name: "types", label: "Types column", hint: "kind", choices: "columns" },
  { name: "partition_by", label: "Partition by", hint: "user_id", choices: "columns" },
  { name: "order_by", label: "Order by", hint: "ts", choices: "columns" },
  { name: "within", label: "Within", hint: "1 hour · 500 rows" },
  { name: "define", label: "Define", hint: "cart: amount > 10", lines: true },
  { name: "measures", label: "Measures", hint: "carts: COUNT(cart.*)", lines: true },
];
const MORE: FieldInfo[] = [
  { name: "without", label: "Without", hint: "refund: kind = 'refund'", lines: true },
  { name: "subset", label: "Subset", hint: "U: A, B", lines: true },
  { name: "select", label: "Select", hint: "as written", choices: ["strict", "next", "any"] },
  {
    name: "after_match",
    label: "After match",
    hint: "past last row",
    choices: ["past last row", "to next row", "to first ", "to last "],
  },
  { name: "missing", label: "May be missing", hint: "0" },
];

function OptionFields() {
  const options = useStudio().written.value?.options ?? {};
  const set = MORE.filter(({ name }) => options[name]).length;
  const [open, setOpen] = useState(set > 0);
  return (
    <div class="options">
      {FIRST.map((one) => (
        <Field key={one.name} {...one} />
      ))}
      <details open={open || set > 0} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>More options{set > 0 && ` (${set} set)`}</summary>
        <div class="options">
          {MORE.map((one) => (
            <Field key={one.name} {...one} />
          ))}
        </div>
      </details>
    </div>
  );
}

function Field({ name, label, hint, lines, choices }: FieldInfo) {
  const studio = useStudio();
  const value = studio.written.value?.options[name] ?? "";
  const problem = studio.problem.value;
  const wrong = problem?.place?.field === name;
  if (lines) {
    return (
      <div class="field wide">
        <span class="name">{label}</span>
        <Code
          label={label}
          field={name}
          read={() => studio.written.value?.options[name] ?? ""}
          language="pattern"
          problem={problem}
          placeholder={hint}
          onInput={(text) => studio.option(name, text)}
        />
      </div>
    );
  }
  const list = `ensue-list-${name}`;
  const columns = studio.opened.value?.columns.slice(0, 300).map((one) => one.name) ?? [];
  const offered = choices === "columns" ? columns : choices;
  const mark = wrong && problem?.place ? problem.place : null;
  return (
    <label class="field">
      <span class="name">{label}</span>
      <input
        value={value}
        placeholder={hint}
        list={offered ? list : undefined}
        spellcheck={false}
        autocomplete="off"
        aria-label={label}
        aria-invalid={wrong}
        aria-describedby={wrong ? "ensue-problem" : undefined}
        data-field={name}
        onInput={(event) => studio.option(name, event.currentTarget.value)}
      />
      {mark && value && (
        <span class="marked" aria-hidden="true">
          {value.slice(0, mark.offset)}
          <mark>{value.slice(mark.offset, mark.offset + Math.max(1, mark.length))}</mark>
          {value.slice(mark.offset + Math.max(1, mark.length))}
        </span>
      )}
      {offered && (
        <datalist id={list}>
          {offered.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </label>
  );
}

function Columns() {
  const opened = useStudio().opened.value;
  if (!opened) return null;
  const shown = opened.columns.slice(0, 200);
  return (
    <details class="columns">
      <summary>Columns of {opened.name}</summary>
      <ul class="plain">
        {shown.map(({ name, type }) => (
          <li key={name}>
            <code>{name}</code> <span class="quiet">{type}</span>
          </li>
        ))}
      </ul>
      {opened.columns.length > shown.length && (
        <p class="quiet">and {(opened.columns.length - shown.length).toLocaleString("en")} more</p>
      )}
    </details>
  );
}
