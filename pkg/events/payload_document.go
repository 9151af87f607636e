package events

// Document is a text that was pinned with an agent.
type Document struct {
	// Name is its path below the agent's folder; Digest the hex SHA-256 of Text.
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Text   string `json:"text"`
}

// Skill is knowledge that an agent is told of by name and description, and reads with the tool "skill".
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Digest is the hex SHA-256 of the whole file; Text its body.
	Digest string `json:"digest"`
	Text   string `json:"text"`
}
