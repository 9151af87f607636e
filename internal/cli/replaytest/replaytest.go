// Package replaytest has inspan replay-test: it makes the decisions of recorded runs again.
package replaytest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/replay"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/gatekeeper"
)

// command is inspan replay-test.
type command struct {
	App    *app.App
	policy string
}

// Command makes inspan replay-test.
func Command(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "replay-test DIR|FILE...", Short: "Make the decisions of recorded runs again and fail where one changed",
		Long: `Reads logs that inspan export wrote, every *.jsonl of a folder, and decides each event again with this program and the
station's policy of today, in the state before it: plan, gates, verdicts on calls, turns, attempts, ends. What came from
outside is taken as recorded: tasks, answers of models, results of tools, people, hooks. No station, model or tool is used.

Exit codes: 0 all would be decided as it was, 1 a decision changed or a log was refused as damaged, 2 wrong command line,
5 there is no such folder or file, or no log in it.`,
		Example: "  inspan export run-k3v9x2m1qa > logs/run-k3v9x2m1qa.jsonl\n  inspan replay-test logs\n  inspan replay-test logs --policy new-policy.yaml --json | jq '.[].changes[]'",
		Args: func(cmd *cobra.Command, argv []string) error {
			if len(argv) == 0 {
				return app.Usage("inspan replay-test wants a folder of logs, or files: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: c.run,
	}
	cmd.Flags().StringVar(&c.policy, "policy", os.Getenv("INSPAN_POLICY"), "policy file of the station (INSPAN_POLICY)")
	return cmd
}

func (a *command) run(cmd *cobra.Command, argv []string) error {
	law, err := policyOf(a.App, a.policy)
	if err != nil {
		return err
	}
	files, err := logs(argv)
	if err != nil {
		return err
	}
	return replayFiles(cmd.Context(), a.App, law, files)
}

// policyOf is what verdicts rest on here: the built-in tools, the policy, and the limits of gates as the environment
// has them.
func policyOf(a *app.App, policyPath string) (replay.Policy, error) {
	cfg, err := service.FromEnv()
	if err != nil {
		return replay.Policy{}, err
	}
	policy, warnings, err := agentfile.LoadPolicy(policyPath)
	if err != nil {
		return replay.Policy{}, app.Usage("--policy: %w", err)
	}
	for _, w := range warnings {
		fmt.Fprintln(a.Err, terminal.Sanitize(w.String()))
	}
	registry, err := tool.NewRegistry(tools.Builtin()...)
	if err != nil {
		return replay.Policy{}, err
	}
	sb := mcp.New(registry, nil)
	law := gatekeeper.Policy(gatekeeper.Config{Tools: registry, ToolsOf: sb.For, Rules: policy.Rules,
		MaxGates: cfg.MaxGates, Terms: cfg.GateTerms()})
	return replay.Policy{Policy: law, Knows: func(agent events.Agent, name string) bool {
		_,
			ok := sb.For(agent).Get(name)
		return ok
	}}, nil
}

// logs lists the files that are meant, those of a folder by name.
func logs(argv []string) ([]string, error) {
	var files []string
	for _, path := range argv {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, app.Exit(app.ExitUnknown, fmt.Errorf("there is no folder or file %s", path))
		}
		if err != nil {
			return nil, fmt.Errorf("look for logs: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path),
			"*.jsonl"))
		if err != nil {
			return nil, fmt.Errorf("look for logs: %w", err)
		}
		if len(found) == 0 {
			return nil, app.Exit(app.ExitUnknown,
				fmt.Errorf("there is no *.jsonl in %s; inspan export RUN > %s writes one", path, filepath.Join(path, "RUN.jsonl")))
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return files, nil
}

// replayed is a report with the file it is about, for JSON.
type replayed struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	replay.Report
}

func replayFiles(ctx context.Context, a *app.App, law replay.Policy, files []string) error {
	all, bad, p := []replayed{}, 0, a.Paint()
	for _, file := range files {
		r, err := replayFile(ctx, law, file)
		if err != nil {
			return err
		}
		all = append(all, replayed{file, r.OK(), r})
		if !r.OK() {
			bad++
		}
		if a.JSON {
			continue
		}
		switch {
		case r.Refused != nil:
			fmt.Fprintf(a.Out, "%s %s: refused, nothing was decided: %s\n", p.Red("✗"), file,
				terminal.Sanitize(r.Refused.Error()))
		case r.OK():
			fmt.Fprintf(a.Out, "%s %s: run %s, %d of %s decided again, as they were%s\n",
				p.Green("✓"), file, r.Run, r.Decided, view.Plural(int(r.Events), "event"), reworded(r)) //nolint:gosec // far below the limit
		default:
			fmt.Fprintf(a.Out, "%s %s: %s changed\n", p.Red("✗"), file, view.Plural(len(r.Changes), "decision"))
		}
		for _, c := range r.Changes {
			fmt.Fprintf(a.Out, "    %s\n", terminal.Sanitize(c.String()))
		}
	}
	if a.JSON {
		if err := a.PrintJSON(all); err != nil {
			return err
		}
	}
	if bad > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("%d of %s would not be decided as recorded", bad,
			view.Plural(len(files), "log")))
	}
	return nil
}

func replayFile(ctx context.Context, law replay.Policy, path string) (replay.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return replay.Report{}, fmt.Errorf("open the log: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	r, err := replay.Log(ctx, law, f)
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// reworded says how many decisions have another text for people today, and the same meaning.
func reworded(r replay.Report) string {
	if r.Reworded == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d with another reason text)", r.Reworded)
}
