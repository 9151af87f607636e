// Package verify has the commands that prove a log: audit and keygen.
package verify

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// auditCommand is inspan audit.
type auditCommand struct {
	App                  *app.App
	file, key, approvers string
	chain                string
	onlySigned, all      bool
	anchors              []string
}

// Audit makes inspan audit.
func Audit(a *app.App) *cobra.Command {
	c := &auditCommand{App: a}
	cmd := &cobra.Command{
		Use:   "audit RUN | audit --all | audit --file FILE",
		Short: "Check that the log of a run, or of all, is what was stored, and name the first event that is wrong",
		Long: `Reads the events of a run, as a station stores them or as inspan export wrote them, and checks sequence, hashes,
authors and order, the objects they refer to, and that the log reaches the heads that the persister signed. With the keys of
the approvers it verifies each signed answer to a gate, and with --only-signed it finds the others wrong. It changes
nothing. Each event proves the one before it; the last one is proven by an anchor alone. Without one the answer is "sound up to" the
event before, and "sound" is false in the JSON form: it is unknown whether the last event was changed, or events behind it were cut off.

--all checks every run that the index, the log or an anchor knows of, the log as a whole, and what the station says of its store.

Exit codes: 0 no fault was found, 1 there is one, 2 wrong command line, 5 there is no such run or file.`,
		Example: "  inspan audit --all\n  inspan audit run-k3v9x2m1qa\n  inspan audit run-k3v9x2m1qa --key persister.pub --json\n  inspan audit --file run.jsonl --anchor run.anchor --key persister.pub\n  inspan audit --file run.jsonl --approver-keys approvers --only-signed",
		RunE:    c.run,
	}
	cmd.Flags().BoolVar(&c.all, "all", false, "check every run of the station, and its log as a whole")
	cmd.Flags().StringVar(&c.file, "file", "", "check this file of events, without a station")
	cmd.Flags().StringVar(&c.key, "key", "",
		"public key that signs anchors: 64 hex digits, or a file with them; default: the keys that the station publishes")
	cmd.Flags().StringVar(&c.chain, "chain", "",
		"with --file: file with the keys of anchors that were replaced, as inspan rotate list --json writes it; a station has them")
	cmd.Flags().StringArrayVar(&c.anchors, "anchor", nil,
		"file with a signed head that the log must reach, as inspan export --anchor writes it; may be given again")
	cmd.Flags().StringVar(&c.approvers, "approver-keys", a.Lookup("INSPAN_APPROVER_KEYS", ""),
		"folder of public keys, NAME.pub, whose signed answers to gates are verified; keep those of approvers who have left (INSPAN_APPROVER_KEYS)")
	cmd.Flags().BoolVar(&c.onlySigned, "only-signed", a.Lookup("INSPAN_ONLY_SIGNED", "") == "true",
		"an answer to a gate without a good signature is wrong (INSPAN_ONLY_SIGNED)")
	return cmd
}

func (a *auditCommand) run(cmd *cobra.Command, argv []string) error {
	keys, err := PublicKeys(a.key)
	if err != nil {
		return err
	}
	given, err := readAnchors(a.anchors)
	if err != nil {
		return err
	}
	trust := operator.Trust{Anchors: given, Keys: keys, OnlySigned: a.onlySigned}
	if trust.Approvers, err = approverKeys(a.approvers, a.onlySigned); err != nil {
		return err
	}
	if ways := len(argv) + number(a.file != "") + number(a.all); ways != 1 {
		return app.Usage("inspan audit wants a run, --all or --file FILE, one of them: %s", cmd.UseLine())
	}
	if a.chain != "" && a.file == "" {
		return app.Usage("--chain goes with --file: the log of a station has the keys that were replaced")
	}
	if a.file != "" {
		all, err := trusted(a.chain, keys)
		if err != nil {
			return err
		}
		return auditFile(cmd.Context(), a.App, a.file, audit.Config{Anchors: given, Keys: all.Keys, Ends: all.Ends,
			Approvers: audit.Approvers{Keys: trust.Approvers, OnlySigned: a.onlySigned}})
	}
	return a.App.Connected(func(ctx context.Context, c *client.Client, argv []string) error {
		if a.all {
			found, err := operator.AuditAll(ctx, c, trust)
			if err != nil {
				return err
			}
			return printReports(a.App, found)
		}
		r, err := operator.Audit(ctx, c, argv[0], trust)
		if errors.Is(err, client.ErrNotFound) {
			return app.NoRun(argv[0])
		}
		if err != nil {
			return err
		}
		return printReport(a.App, r)
	})(cmd, argv)
}

// trusted are the keys that follow from --key and --chain.
func trusted(path string, given []ed25519.PublicKey) (keychain.Trusted, error) {
	if path == "" {
		return keychain.Trusted{Keys: given}, nil
	}
	var chain keychain.Chain
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &chain)
	}
	if err != nil {
		return keychain.Trusted{}, app.Usage("--chain: %w", err)
	}
	if len(given) == 0 {
		return keychain.Trusted{}, app.Usage("--chain needs --key: whoever writes that file could put any key into it")
	}
	all, err := keychain.Trust(chain.Station, given, nil, chain.Links)
	if err != nil {
		return all, fmt.Errorf("--chain %s: %w", path, err)
	}
	return all, nil
}

// approverKeys reads --approver-keys; none are no keys.
func approverKeys(dir string, needed bool) (approval.Keys, error) {
	if dir == "" {
		if needed {
			return approval.Keys{}, app.Usage("--only-signed needs the keys of the approvers: --approver-keys DIR or INSPAN_APPROVER_KEYS")
		}
		return approval.Keys{}, nil
	}
	keys, err := approval.LoadKeys(dir)
	if err != nil {
		return keys, app.Usage("--approver-keys: %w", err)
	}
	return keys, nil
}

func auditFile(ctx context.Context, a *app.App, file string, cfg audit.Config) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return app.Exit(app.ExitUnknown, fmt.Errorf("--file %s: there is no such file", file))
	}
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	defer f.Close()
	r, err := audit.File(ctx, cfg, f)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return printReport(a, r)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// claimed is a report as it is printed for programs: it calls a log sound only where something vouches for every event.
func claimed(r audit.Report) audit.Report {
	r.Sound = r.Vouched()
	return r
}

// printReport prints a report; a log that has a fault is exit code 1.
func printReport(a *app.App, r audit.Report) error {
	if a.JSON {
		if err := a.PrintJSON(claimed(r)); err != nil {
			return err
		}
		if !r.Sound {
			return app.Exit(app.ExitFailed, nil)
		}
		return nil
	}
	if !r.Sound {
		return app.Exit(app.ExitFailed,
			fmt.Errorf("run %s is not sound: %w: compare with the archive, do not go on with this run", r.Run, *r.First))
	}
	p := a.Paint()
	objects := view.Plural(r.Objects, "object") + " whole"
	if r.Unseen > 0 {
		objects = view.Plural(r.Unseen, "object") + " not looked at: the file holds events alone"
	}
	if r.Vouched() {
		fmt.Fprintf(a.Out, "%s The log of run %s is sound.\n", p.Green("●"), p.Bold(r.Run))
	} else {
		fmt.Fprintf(a.Out, "%s The log of run %s is sound up to event %d; the last event, event %d, is not vouched for: no anchor covers it.\n", p.Yellow("●"), p.Bold(r.Run), r.SoundUpTo, r.Events)
	}
	a.Pairs([][2]string{{"Events", fmt.Sprintf("%d, the run is %s", r.Events, r.Status)}, {"Head", r.Head},
		{"Objects", objects}, {"Anchor", anchorLine(r)}, {"Answers", answersLine(r)}})
	return nil
}

// printReports prints what was found in all runs; any fault is exit code 1.
func printReports(a *app.App, all operator.Audits) error {
	failed := fmt.Errorf("station %s is not sound: %s of %d with a fault: do not go on with these, see docs/runbook.md",
		all.Station, view.Plural(all.Faulty, "run"), len(all.Runs))
	if a.JSON {
		failed = nil
		sound := all.Sound
		for i, r := range all.Runs {
			all.Runs[i] = claimed(r)
		}
		all.Sound = sound && all.Unvouched == 0
		if err := a.PrintJSON(all); err != nil {
			return err
		}
		all.Sound = sound
	} else {
		printAudits(a, all)
	}
	if !all.Sound {
		return app.Exit(app.ExitFailed, failed)
	}
	return nil
}

func printAudits(a *app.App, all operator.Audits) {
	p, rows := a.Paint(), [][]string{}
	for _, r := range all.Runs {
		verdict := p.Green("sound")
		switch {
		case !r.Sound:
			verdict = p.Red(terminal.Sanitize(r.First.Error()))
		case !r.Vouched():
			verdict = p.Yellow(fmt.Sprintf("sound up to event %d, last event not vouched for", r.SoundUpTo))
		}
		rows = append(rows, []string{r.Run, p.State(string(r.Status)), fmt.Sprint(r.Events), fmt.Sprint(r.Anchored), verdict})
	}
	a.Table([]string{"RUN", "STATUS", ">EVENTS", ">ANCHOR", "FOUND"}, rows)
	if all.Missing != "" {
		fmt.Fprintf(a.Out, "%s %s\n", p.Red("The log as a whole:"), all.Missing)
	}
	for _, lost := range all.Damage.Lost {
		fmt.Fprintf(a.Out, "%s %s\n", p.Red("The station reports (loss "+cmp.Or(all.Damage.ID, "without an ID")+"):"),
			terminal.Sanitize(lost))
	}
	if all.Sound {
		open := ""
		if all.Unvouched > 0 {
			open = fmt.Sprintf("; in %d of them no anchor covers the last event yet", all.Unvouched)
		}
		fmt.Fprintf(a.Out, "No fault in %s%s.\n", view.Plural(len(all.Runs), "run"), open)
	}
}

func anchorLine(r audit.Report) string {
	switch {
	case r.Anchored == 0:
		return "none: whether the last event was changed, or events were cut off behind it, cannot be known"
	case !r.Signed:
		return fmt.Sprintf("at event %d of %d; its signature was not checked, name the key with --key", r.Anchored, r.Events)
	}
	return fmt.Sprintf("signed at event %d of %d", r.Anchored, r.Events)
}

func answersLine(r audit.Report) string {
	if r.Answers == 0 {
		return "none to a gate"
	}
	text := fmt.Sprintf("%d to gates, %d with a verified signature", r.Answers, r.Verified)
	if r.Unverified > 0 {
		text += fmt.Sprintf(", %d with one that was not checked: name the keys with --approver-keys", r.Unverified)
	}
	return text
}

// PublicKeys reads --key: the digits themselves, or a file with them.
func PublicKeys(key string) ([]ed25519.PublicKey, error) {
	if key == "" {
		return nil, nil
	}
	text := key
	if b, err := os.ReadFile(key); err == nil {
		text = string(b)
	}
	public, err := audit.ParsePublic(text)
	if err != nil {
		return nil, app.Usage("--key %.80s: %w", key, err)
	}
	return []ed25519.PublicKey{public}, nil
}

func readAnchors(files []string) ([]run.Anchor, error) {
	var all []run.Anchor
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, app.Usage("--anchor: %w", err)
		}
		an, err := audit.ReadAnchor(b)
		if err != nil {
			return nil, app.Usage("--anchor %s: %w", file, err)
		}
		all = append(all, an)
	}
	return all, nil
}
