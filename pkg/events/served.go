package events

import "encoding/json"

// ServedTool is a tool that a program of others serves over NATS, as an operator allowed it.
type ServedTool struct {
	// Name that models call it by and that its subject ends with; Server the name of who serves it.
	Name   string `json:"name"`
	Server string `json:"server"`
	// Description and Input (a JSON Schema) are what the model is shown, whatever the server says later.
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input"`
	// Effect class: read, idempotent, reconcilable or once.
	Effect string `json:"effect"`
	// TimeoutMS of one call, in milliseconds; 0 means the default of all tools.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Digest is the hex SHA-256 of all of these; see pkg/tool/wire.
	Digest string `json:"digest"`
}
