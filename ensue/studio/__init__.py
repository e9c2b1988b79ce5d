"""The studio: a page on which patterns are written, matched and explained.

`session` answers questions about tables and queries, and knows no web. `desk` hands calls to a
process of its own, so that each can be ended. `server` carries them over HTTP on this machine,
`widget` inside Jupyter and marimo; both show the page in `page/`, which is built from `studio/`.
What they say to one another is in studio/PROTOCOL.md.
"""
