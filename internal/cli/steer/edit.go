package steer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// editing holds the flags of an approval with other arguments than those proposed.
type editing struct {
	text, file string
	editor     bool
}

func (e *editing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.text, "edit", "",
		`approve with these arguments instead, all of them, as a JSON object: '{"command":"ls"}'`)
	f.StringVar(&e.file, "edit-file", "", "approve with the arguments in this file instead; - reads standard input")
	f.BoolVar(&e.editor, "editor", false, "approve with the arguments as you leave them in $VISUAL or $EDITOR")
	cmd.Long = `Says yes to what a gate shows. With --edit, --edit-file or --editor, the call is made with other arguments: they must fit
the tool, no guard rule may deny them and no hook block them, and the agent reads what changed. A gate may need several approvers:
yours is then one vote, for the action that you approve; only votes for the same one add up, and one reject is enough.`
	cmd.Example += "\n  inspan approve g-1a2b3c4d5e6f --edit '{\"command\":\"make test\"}'\n  inspan approve g-1a2b3c4d5e6f --editor"
}

// input returns the edited arguments, nil where nothing is edited.
func (e *editing) input(ctx context.Context, a *app.App, c *client.Client,
	runID, gate string) (json.RawMessage, error) {
	var raw []byte
	var err error
	switch {
	case e.text != "" && e.file != "", e.editor && e.text+e.file != "":
		return nil, app.Usage("give the arguments once: --edit, --edit-file or --editor")
	case e.text != "":
		raw = []byte(e.text)
	case e.file == "-":
		raw, err = io.ReadAll(io.LimitReader(a.In, 2*events.MaxInlineInput))
	case e.file != "":
		raw, err = os.ReadFile(e.file)
	case e.editor:
		raw, err = edited(ctx, a, c, runID, gate)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("edited arguments: %w", err)
	}
	input, err := events.EditedInput(raw)
	if err != nil {
		return nil, app.Usage("%w; give all arguments of the call, for example --edit '{\"command\":\"ls\"}'", err)
	}
	return input, nil
}

// edited lets the person change the proposed arguments in an editor.
func edited(ctx context.Context, a *app.App, c *client.Client, runID, gate string) ([]byte, error) {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		return nil, errors.New("neither VISUAL nor EDITOR names an editor; use --edit or --edit-file")
	}
	proposed, err := proposedInput(ctx, c, runID, gate)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "inspan-edit-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // a temporary file
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, proposed, "", "  "); err != nil {
		return nil, err
	}
	pretty.WriteByte('\n')
	_, err = f.Write(pretty.Bytes())
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	// The editor may come with flags of its own, as in EDITOR="code --wait".
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name()) //nolint:gosec // the person's own editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("editor %q: %w; nothing was answered", editor, err)
	}
	left, err := os.ReadFile(f.Name())
	if err == nil && bytes.Equal(left, pretty.Bytes()) {
		err = errors.New("nothing was changed, and nothing answered; to approve the call as it is leave --editor out")
	}
	return left, err
}

// proposedInput are the arguments that a gate shows.
func proposedInput(ctx context.Context, c *client.Client, runID, gate string) (json.RawMessage, error) {
	for item, err := range c.Events(ctx, runID, 0) {
		if err != nil {
			return nil, err
		}
		d, ok := item.Payload.(*events.GateOpenedData)
		if !ok || d.Gate != gate {
			continue
		}
		var p struct {
			Input json.RawMessage `json:"input"`
		}
		if err := json.Unmarshal(d.Proposal, &p); err != nil || len(p.Input) == 0 {
			return nil, fmt.Errorf("gate %s shows no arguments that could be edited (%s); use --edit-file", gate, d.Scope)
		}
		return p.Input, nil
	}
	return nil, fmt.Errorf("gate %s: %w in run %s", gate, client.ErrNotFound, runID)
}
