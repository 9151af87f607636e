// Package events holds the words of Inspan: what can be said about a run, on which subject, by whom.
//
// Promises: every event is one self-contained CloudEvents 1.0 document in structured JSON. Kinds are past tense,
// never renamed; a payload only ever grows; a new meaning is a new word. Each kind has one author among the
// services (Author), one payload type, one JSON Schema and one golden sample. The package knows nothing of NATS,
// has no state and imports only the standard library.
package events
