package events

import "encoding/json"

// MCPServer is a server of the Model Context Protocol that tools of an agent come from. It is either a program that
// runs inside the run's sandbox (Command) or an address (URL).
type MCPServer struct {
	// Name in the agent file: 1 to 32 characters of a-z 0-9 and -.
	Name string `json:"name"`
	// Command is the program and its arguments; Env its environment beside the sandbox's. A value "secret:NAME" stands
	// for a secret that only the toolrunner has.
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// URL of a server that speaks streamable HTTP. Each header's value is "secret:NAME".
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// TimeoutMS of one call, in milliseconds; 0 means the default of all tools.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Effects are the operator's words on what the tools do; the first that fits holds. A tool without one is once.
	Effects []MCPEffect `json:"effects,omitempty"`
	// Protocol is the revision that was spoken when the tools were pinned.
	Protocol string `json:"protocol,omitempty"`
	// Tools that the agent may see and call, as they were pinned.
	Tools []MCPTool `json:"tools,omitempty"`
}

// MCPEffect gives the tools of a server whose names fit a glob an effect class.
type MCPEffect struct {
	Tool   string `json:"tool"`
	Effect string `json:"effect"`
}

// MCPTool is one tool of a server as the operator allowed it.
type MCPTool struct {
	// Name is the server's own; Call the one that models use and that stands in events.
	Name string `json:"name"`
	Call string `json:"call"`
	// Description and Input (a JSON Schema) are what the model is shown, whatever the server says later.
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input"`
	// Effect class: read, idempotent or once.
	Effect string `json:"effect"`
	// Digest is the hex SHA-256 of name, description and input.
	Digest string `json:"digest"`
}

// MCPTool returns a pinned tool by the name that models call it by.
func (a *Agent) MCPTool(call string) (*MCPServer, *MCPTool) {
	for i := range a.MCP {
		for j := range a.MCP[i].Tools {
			if a.MCP[i].Tools[j].Call == call {
				return &a.MCP[i], &a.MCP[i].Tools[j]
			}
		}
	}
	return nil, nil
}
