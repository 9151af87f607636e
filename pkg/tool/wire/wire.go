// Package wire is the protocol between the toolrunners of a station and the programs that serve tools to it over NATS.
//
// Promises: it is plain data, and every message is one JSON object below MaxMessage. A toolrunner publishes a Request
// on the subject of the tool, whose servers are one queue group; the last token of its reply subject names the
// exchange. The server answers there with Replies: accepted, then, once a Control on the control subject of the
// exchange lets it begin, alive and output while it works, and exactly one end (result, failed or lost). A server that
// is not let begin does nothing, so a toolrunner that has not sent begin knows that nothing has begun.
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/tool"
)

// Version of the protocol. A message of another version is refused.
const Version = 1

// Limits. Sizes are bytes.
const (
	// MaxMessage is the most of one message: what a NATS server takes that is not configured otherwise, less its
	// headers.
	MaxMessage = 1<<20 - 8<<10
	// MaxChunk is the most of one piece of output that is sent as it comes, MaxLive the most of all pieces of a call.
	MaxChunk = 64 << 10
	MaxLive  = 8 << 20
	// MaxText is the most of a tool's description, and of its schema.
	MaxText = 16 << 10
	// MaxError is the most of an error's text and of its hint.
	MaxError = 4 << 10
)

// Times of an exchange.
const (
	// Heartbeat is how often a server says that it works, where a request does not say otherwise.
	Heartbeat = 2 * time.Second
	// BeginWait is how long a server that accepted a request waits to be let begin.
	BeginWait = 15 * time.Second
)

// What a request asks for.
const (
	AskRun    = "run"
	AskVerify = "verify"
)

// Request asks for one attempt of a call, or whether an earlier one took effect. It holds no secret of the station.
type Request struct {
	V    int    `json:"v"`
	Ask  string `json:"ask"`
	Tool string `json:"tool"`
	// Digest of the specification that the operator allowed; a server with another one refuses.
	Digest string `json:"digest"`
	Run    string `json:"run"`
	Call   string `json:"call"`
	// Key is the idempotency key: the same for each attempt of the same call.
	Key string `json:"key"`
	// Input holds the arguments.
	Input json.RawMessage `json:"input"`
	// TimeoutMS is how long the attempt may take from begin on, in milliseconds.
	TimeoutMS int64 `json:"timeout_ms"`
	// HeartbeatMS is how often the server is to say that it works.
	HeartbeatMS int64 `json:"heartbeat_ms,omitempty"`
	// MaxOutput is the most bytes of output that the model is shown.
	MaxOutput int `json:"max_output"`
}

// Control is what a toolrunner sends after its request.
type Control struct {
	V    int    `json:"v"`
	Type string `json:"type"`
}

// Types of controls.
const (
	Begin  = "begin"
	Cancel = "cancel"
)

// Types of replies.
const (
	Accepted = "accepted"
	// Refused ends an exchange before anything has begun.
	Refused = "refused"
	Alive   = "alive"
	Output  = "output"
	// Ended carries a Result, Failed an Error.
	Ended  = "result"
	Failed = "failed"
	// Lost ends a call that the server gave up in the middle, because it ends itself.
	Lost = "lost"
)

// Reply is one message of a server.
type Reply struct {
	V    int    `json:"v"`
	Type string `json:"type"`
	// Server and Digest say in accepted and refused who answers, and with which specification.
	Server string `json:"server,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Stream and Chunk are a piece of output.
	Stream string `json:"stream,omitempty"`
	Chunk  []byte `json:"chunk,omitempty"`
	// Done says in the result of verify whether the earlier attempt took effect.
	Done   bool    `json:"done,omitempty"`
	Result *Result `json:"result,omitempty"`
	Error  *Error  `json:"error,omitempty"`
}

// Result is a tool.Result as it is sent: what belongs to a workspace is not there.
type Result struct {
	Output string `json:"output"`
	// Full is the whole output where Output is truncated.
	Full []byte `json:"full,omitempty"`
	// Images are the bytes of pictures.
	Images   [][]byte `json:"images,omitempty"`
	Failed   bool     `json:"failed,omitempty"`
	ExitCode *int     `json:"exit_code,omitempty"`
}

// Error is a tool.Error as it is sent.
type Error struct {
	Class        string `json:"class"`
	Message      string `json:"message"`
	Hint         string `json:"hint,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// Spec is one tool as its server describes it, and as a file of the operator pins it.
type Spec struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input"`
	Effect      string          `json:"effect"`
	TimeoutMS   int64           `json:"timeout_ms"`
	Digest      string          `json:"digest"`
}

// nameRule is that of tools, serverRule that of the names of servers.
const (
	nameRule   = `^[a-z0-9_]{1,64}$`
	serverRule = `^[a-z0-9-]{1,32}$`
)

var (
	toolName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(nameRule) })
	serverName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(serverRule) })
)

// Describe is the specification of a tool that a server of a name serves, with its digest.
func Describe(server string, s tool.Spec) (Spec, error) {
	d := Spec{Name: s.Name, Server: server, Description: s.Description, Input: s.Input, Effect: string(s.EffectOf()),
		TimeoutMS: s.TimeoutOf().Milliseconds()}
	d.Digest = d.digest()
	return d, d.Check()
}

// digest is the hex SHA-256 of all else; empty where the schema is no JSON.
func (s Spec) digest() string {
	b, err := json.Marshal([]any{Version, s.Server, s.Name, s.Description, s.Input, s.Effect, s.TimeoutMS})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Check reports why a specification cannot be trusted to be what it says.
func (s Spec) Check() error {
	switch {
	case !toolName().MatchString(s.Name) || strings.HasPrefix(s.Name, "mcp__"):
		return fmt.Errorf("tool name %.80q: want %s, and not the beginning mcp__", s.Name, nameRule)
	case !serverName().MatchString(s.Server):
		return fmt.Errorf("server name %.80q of tool %s: want %s", s.Server, s.Name, serverRule)
	case len(s.Description) > MaxText || len(s.Input) > MaxText:
		return fmt.Errorf("tool %s: its description has %d bytes and its schema %d, the limit of each is %d", s.Name,
			len(s.Description), len(s.Input), MaxText)
	case s.TimeoutMS <= 0:
		return fmt.Errorf("tool %s: a time limit of %d ms, want more than 0", s.Name, s.TimeoutMS)
	}
	switch tool.Effect(s.Effect) {
	case tool.Read, tool.Idempotent, tool.Reconcilable, tool.Once:
	default:
		return fmt.Errorf("tool %s: effect class %.40q is none of read, idempotent, reconcilable, once", s.Name, s.Effect)
	}
	if d := s.digest(); d == "" || d != s.Digest {
		return fmt.Errorf("tool %s: its digest is not that of its specification", s.Name)
	}
	return nil
}

// errVersion means that the other side speaks another version.
var errVersion = errors.New("another version of the protocol")

// Decode reads a message of the other side into one of the types of this package.
func Decode[M Request | Control | Reply](data []byte) (m M, err error) {
	if len(data) > MaxMessage {
		return m, fmt.Errorf("%d bytes, the limit is %d", len(data), MaxMessage)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("not a message of the protocol: %w", err)
	}
	if v := version(m); v != Version {
		return m, fmt.Errorf("%w: %d, this program speaks %d", errVersion, v, Version)
	}
	return m, nil
}

func version(m any) int {
	switch m := m.(type) {
	case Request:
		return m.V
	case Control:
		return m.V
	case Reply:
		return m.V
	}
	return 0
}
