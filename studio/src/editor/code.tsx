// A text that is edited: CodeMirror with the session's errors, completion and colours.

import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Annotation, Compartment, EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  keymap,
  placeholder as placeholderText,
  tooltips,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Language, Option, Problem } from "../protocol";
import { useStudio } from "../state/hooks";
import type { Studio } from "../state/studio";
import { hanging } from "./hanging";
import { languageOf } from "./languages";
import { setPalette, variables } from "./variables";

interface CodeProps {
  label: string;
  field: "text" | Option;
  /** What the text is now. It is read as a signal: what was typed meanwhile must not be undone. */
  read: () => string;
  language: Language;
  problem: Problem | null;
  placeholder?: string;
  readOnly?: boolean;
  onInput: (text: string) => void;
}

/** Marks a change that the page made, and nobody typed. */
const given = Annotation.define<boolean>();

export function Code(props: CodeProps) {
  const studio = useStudio();
  const holder = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const language = useRef(new Compartment());
  const attributes = useRef(new Compartment());
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const made = new EditorView({
      parent: holder.current!,
      state: EditorState.create({
        doc: props.read(),
        extensions: [
          keymap.of([
            { key: "Mod-Enter", run: () => run(studio) },
            ...closeBracketsKeymap,
            ...completionKeymap,
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          EditorView.lineWrapping,
          hanging,
          EditorState.readOnly.of(props.readOnly ?? false),
          tooltips({ position: "fixed" }),
          autocompletion({ override: [(context) => complete(studio, latest.current, context)] }),
          syntaxHighlighting(classHighlighter),
          variables,
          language.current.of(languageOf(props.language)),
          attributes.current.of(described(props)),
          placeholderText(props.placeholder ?? ""),
          EditorView.updateListener.of((update) => {
            // What the page itself put in is no typing.
            if (update.docChanged && !update.transactions.some((one) => one.annotation(given))) {
              latest.current.onInput(update.state.doc.toString());
            }
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, []);

  useEffect(
    () =>
      effect(() => {
        const value = latest.current.read();
        const editor = view.current!;
        const before = editor.state.doc.toString();
        if (before === value) return;
        const cursor = Math.min(editor.state.selection.main.head, value.length);
        editor.dispatch({
          changes: { from: 0, to: before.length, insert: value },
          selection: { anchor: cursor },
          annotations: given.of(true),
        });
      }),
    [],
  );

  useEffect(() => {
    view.current!.dispatch({
      effects: language.current.reconfigure(languageOf(props.language)),
    });
  }, [props.language]);

  const palette = studio.palette.value;
  useEffect(() => {
    view.current!.dispatch({ effects: setPalette.of(palette) });
  }, [palette]);

  useEffect(() => {
    const editor = view.current!;
    editor.dispatch({ effects: attributes.current.reconfigure(described(props)) });
    editor.dispatch(setDiagnostics(editor.state, diagnostics(props, editor.state.doc.length)));
  }, [props.problem, props.label]);

  return <div class="code" ref={holder} data-field={props.field} />;
}

function run(studio: Studio): boolean {
  void studio.read(true);
  return true;
}

function described(props: CodeProps) {
  const wrong = props.problem?.place?.field === props.field;
  return EditorView.contentAttributes.of({
    "aria-label": props.label,
    ...(wrong ? { "aria-invalid": "true", "aria-describedby": "ensue-problem" } : {}),
  });
}

function diagnostics({ problem, field }: CodeProps, length: number) {
  const place = problem?.place;
  if (!problem || place?.field !== field) return [];
  const from = Math.min(place.offset, length);
  const to = Math.min(from + Math.max(place.length, 1), length);
  const message = problem.remedy ? `${problem.message}\n${problem.remedy}` : problem.message;
  return [
    { from: from === to ? Math.max(0, from - 1) : from, to, severity: "error" as const, message },
  ];
}

async function complete(
  studio: Studio,
  { field }: CodeProps,
  context: CompletionContext,
): Promise<CompletionResult | null> {
  const word = context.matchBefore(/[A-Za-z_]\w*/);
  if (!word && !context.explicit) return null;
  const written = studio.written.value;
  if (!written) return null;
  const typedText = context.state.doc.toString();
  const query =
    field === "text"
      ? { ...written, text: typedText }
      : { ...written, options: { ...written.options, [field]: typedText } };
  const source = studio.opened.value?.source ?? null;
  const params = { query, field, offset: context.pos, source };
  const answer = await studio.tasks.ask("complete", "complete", params);
  if (!answer || "problem" in answer || context.aborted) return null;
  const { from, to, options } = answer.result;
  // What is written out already needs no list under the hands.
  const here = typedText.slice(from, context.pos);
  if (!context.explicit && options.length === 1 && options[0]!.label === here) return null;
  return {
    from,
    to,
    validFor: /^\w*$/,
    options: options.map(
      (one): Completion => ({
        label: one.label,
        detail: one.detail,
        type: one.type,
        apply: one.apply || one.label,
      }),
    ),
  };
}
