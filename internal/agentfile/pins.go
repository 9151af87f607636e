package agentfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// PinsExt is the ending of the file beside an agent's that pins the tools of its MCP servers.
const PinsExt = ".mcp.json"

// Limits of pins. Sizes are bytes.
const (
	maxPinsFile = 4 << 20
	// MaxServerTools is the most tools of one server; a server that has more is refused whole.
	MaxServerTools = 1024
	// MaxToolText is the most bytes of one tool's description, and of its schema.
	MaxToolText = 16 << 10
	// MaxPinned is the most bytes of all tools that an agent gets from servers: they stand in the first event of each
	// run.
	MaxPinned = 96 << 10
)

// Pins is what an operator has seen of an agent's MCP servers and allows: the file NAME.mcp.json beside NAME.prompt.
type Pins struct {
	Version int                   `json:"version"`
	Servers map[string]ServerPins `json:"servers"`
}

// ServerPins are the tools of one server.
type ServerPins struct {
	// Protocol is the revision that the server spoke.
	Protocol string `json:"protocol"`
	// Tools by name.
	Tools []ToolPin `json:"tools"`
	// LeftOut are tools that cannot be offered to a model, with the reason.
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// ToolPin is a tool as its server described it. Hints of the server decide nothing.
type ToolPin struct {
	Name        string          `json:"name"`
	Digest      string          `json:"digest"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input_schema"`
	// Hint is what the server says of the tool's effect, in its own words; for people only.
	Hint string `json:"server_hint,omitempty"`
}

// LeftOut is a tool that is not offered.
type LeftOut struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// PinsVersion is the version of the file.
const PinsVersion = 1

// ToolDigest is the hex SHA-256 of all that a model is shown of a tool.
func ToolDigest(name, description string, input json.RawMessage) string {
	b, err := json.Marshal([]any{name, description, input})
	if err != nil {
		return "" // a schema that is no JSON has no digest, and equals nothing
	}
	return events.HashOf(b)
}

var (
	plainName = pattern.New(`^[A-Za-z0-9_-]+$`)
	ruleName  = pattern.New(`^[A-Za-z0-9_.-]{1,128}$`)
	notPlain  = pattern.New(`[^A-Za-z0-9_-]`)
)

// maxCall is the longest name of a tool that every provider takes, in bytes.
const maxCall = 64

// CallName is the name that models call a server's tool by: mcp__server__tool where that is a name that every provider
// takes, else as much of it as can be kept and a part of the name's digest, so that two tools never have one name.
func CallName(server, tool string) string {
	name := "mcp__" + server + "__" + notPlain.ReplaceAllString(tool, "_")
	if plainName.MatchString(tool) && len(name) <= maxCall {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	tail := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxCall-len(tail))] + tail
}

// RuleName is the name that guard rules know a server's tool by: mcp:server/tool.
func RuleName(server, tool string) string {
	if !ruleName.MatchString(tool) {
		tool = strings.TrimPrefix(CallName(server, tool), "mcp__"+server+"__")
	}
	return mcpPrefix + server + "/" + tool
}

// CheckTool reports why a tool cannot be offered to a model, or nil. Texts with characters that a person who looks at
// them does not see are refused: they would tell the model what the operator never read.
func CheckTool(t ToolPin) error {
	switch {
	case t.Name == "" || len(t.Name) > 256 || !utf8.ValidString(t.Name):
		return errors.New("its name is not 1 to 256 bytes of UTF-8 text")
	case len(t.Description) > MaxToolText:
		return fmt.Errorf("its description has %d bytes, the limit is %d", len(t.Description), MaxToolText)
	case len(t.Input) > MaxToolText:
		return fmt.Errorf("its schema has %d bytes, the limit is %d", len(t.Input), MaxToolText)
	case t.Digest != ToolDigest(t.Name, t.Description, t.Input):
		return errors.New("its digest does not match its description and schema: the pins were edited by hand; pin it again")
	}
	for _, text := range []string{t.Name, t.Description, string(t.Input)} {
		if i := strings.IndexFunc(text, hidden); i >= 0 {
			r, _ := utf8.DecodeRuneInString(text[i:])
			return fmt.Errorf("its text has the hidden character U+%04X", r)
		}
	}
	return nil
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl,
		unicode.Zp) || r == utf8.RuneError
}

// ReadPins reads the pins beside an agent file; none are no error.
func ReadPins(agentPath string) (Pins, error) {
	at := strings.TrimSuffix(agentPath, Ext) + PinsExt
	data, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return Pins{}, nil
	}
	if err != nil {
		return Pins{}, err
	}
	return parsePins(filepath.Base(at), data)
}

func parsePins(name string, data []byte) (Pins, error) {
	unfit := func(err error) error {
		return &Error{Code: CodeFile, File: name, Message: "the pins are unreadable: " + err.Error(),
			Hint: "create them again: inspan tools --agent FILE --pin"}
	}
	var p Pins
	if err := decodePins(data, &p); err != nil {
		return Pins{}, unfit(err)
	}
	if p.Version != PinsVersion {
		return Pins{}, unfit(fmt.Errorf("version %d, this program supports %d", p.Version, PinsVersion))
	}
	for _, s := range p.Servers {
		for i := range s.Tools {
			if err := compact(&s.Tools[i].Input); err != nil {
				return Pins{}, unfit(err)
			}
		}
	}
	return p, nil
}

// Write stores the pins beside an agent file, in one move.
func (p Pins) Write(agentPath string) (at string, err error) {
	at = strings.TrimSuffix(agentPath, Ext) + PinsExt
	return at, writePins(at, p)
}

// decodePins reads a file of pins, which has nothing else.
func decodePins(data []byte, into any) error {
	if len(data) > maxPinsFile {
		return tooLarge("the file is too large", maxPinsFile, len(data))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func writePins(at string, pins any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(pins); err != nil {
		return fmt.Errorf("encode the pins: %w", err)
	}
	if err := disk.Replace(at, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the pins: %w", err)
	}
	return nil
}

// compact writes a schema without spaces.
func compact(schema *json.RawMessage) error {
	var b bytes.Buffer
	err := json.Compact(&b, *schema)
	*schema = b.Bytes()
	return err
}

// NotNamed is why a tool is not offered that the agent does not ask for.
const NotNamed = "not named under tools"

// Offer is one tool of an agent's servers and what became of it.
type Offer struct {
	Server, Tool string
	// Why it is not offered; empty where it is.
	Why string
}

// Pin puts the pinned tools that an agent names into its definition: from then on it says by itself what the agent may
// see and call. The names mcp:server/tool give way to those that models call by, and the digest covers the pins. It
// returns what is offered and what is not, with the reason.
func Pin(a events.Agent, pins Pins) (events.Agent, []Offer) {
	named := a.Tools
	if len(a.MCP) == 0 && !slices.ContainsFunc(named, isMCP) {
		return a, nil
	}
	var offers []Offer
	a.MCP = slices.Clone(a.MCP)
	a.Tools = slices.DeleteFunc(slices.Clone(named), isMCP)
	taken, size := map[string]bool{}, 0
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", a.Digest)
	for i := range a.MCP {
		s := &a.MCP[i]
		pinned, ok := pins.Servers[s.Name]
		if !ok {
			offers = append(offers, Offer{Server: s.Name, Why: "its tools are not pinned: inspan tools --agent FILE --pin"})
			continue
		}
		s.Protocol, s.Tools = pinned.Protocol, nil
		for _, t := range pinned.Tools {
			if !wants(named, s.Name, t.Name) {
				offers = append(offers, Offer{s.Name, t.Name, NotNamed})
				continue
			}
			add := events.MCPTool{Name: t.Name, Call: CallName(s.Name, t.Name), Description: t.Description, Input: t.Input,
				Effect: effectOf(*s, t.Name), Digest: t.Digest}
			room, err := toolRoom(t, add, size)
			if err == nil && taken[add.Call] {
				err = errors.New("another tool has its name")
			}
			if err != nil {
				offers = append(offers, Offer{s.Name, t.Name, err.Error()})
				continue
			}
			taken[add.Call] = true
			size += room
			s.Tools = append(s.Tools, add)
			a.Tools = append(a.Tools, add.Call)
			offers = append(offers, Offer{Server: s.Name, Tool: t.Name})
			fmt.Fprintf(sum, "%s %s\n", add.Call, t.Digest)
		}
		for _, l := range pinned.LeftOut {
			offers = append(offers, Offer{s.Name, l.Name, l.Why})
		}
	}
	a.Digest = hex.EncodeToString(sum.Sum(nil))
	return a, offers
}

// toolRoom is how many bytes a tool takes in an event, beside those that are taken, or why it cannot have them.
func toolRoom(t ToolPin, add events.MCPTool, taken int) (int, error) {
	if err := CheckTool(t); err != nil {
		return 0, err
	}
	b, err := json.Marshal(add)
	if err != nil {
		return 0, fmt.Errorf("its schema: %w", err)
	}
	if taken+len(b) > MaxPinned {
		return 0, tooLarge("all tools of the servers together exceed the size limit: name fewer under tools", MaxPinned,
			taken+len(b))
	}
	return len(b), nil
}

func isMCP(tool string) bool { return strings.HasPrefix(tool, mcpPrefix) }

// unpinned warns of servers and tools that an agent names and does not get.
func unpinned(file string, a events.Agent, named []string, pins Pins, offers []Offer) []Warning {
	var out []Warning
	for _, o := range offers {
		if o.Why == "" || o.Tool != "" && !wants(named, o.Server, o.Tool) {
			continue
		}
		w := Warning{Code: CodeNoEffect, File: file, Path: "mcp." + o.Server, Message: o.Why, Hint: "inspan tools --agent " +
			file}
		if o.Tool != "" {
			w.Message = shown(o.Tool) + " is not offered: " + o.Why
		}
		out = append(out, w)
	}
	for _, name := range slices.Sorted(maps.Keys(pins.Servers)) {
		if !slices.ContainsFunc(a.MCP, func(s events.MCPServer) bool { return s.Name == name }) {
			out = append(out, Warning{Code: CodeNoEffect, File: file, Path: "mcp",
				Message: "pins of a server that the file does not name: " + shown(name), Hint: "pin again"})
		}
	}
	return out
}
