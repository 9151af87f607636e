package rotate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

// takenEvery is how often a command looks whether the station has taken up a key.
const takenEvery = 50 * time.Millisecond

// anchorKeyCommand is inspan rotate anchor-key.
type anchorKeyCommand struct {
	App                  *app.App
	store, file          string
	leaked, lost, dryRun bool
	since                uint64
}

func anchorKeyCmd(a *app.App) *cobra.Command {
	c := &anchorKeyCommand{App: a}
	cmd := &cobra.Command{
		Use: "anchor-key", Short: "Replace the key that signs the heads of runs",
		Long: `Replaces the key that the persister signs the heads of runs with (anchors), by a new one that the old one certifies. The certificate goes into
the log of the station: from that position on, anchors of the old key are not accepted, and all older ones stay good, so inspan audit verifies
a log over any number of rotations, also for somebody who has only one of the public keys. The old private key is gone afterwards.

A station of inspan up takes up the new key within a second; one that does not run, at its next start. A persister that reads the key from a
file (INSPAN_ANCHOR_KEY_FILE, for --file) must be started again with the new file.

--leaked says that others have the old key: it certifies nothing, and with --since the anchors that it signed after a position of the log
are not accepted, either. --lost replaces a key that is gone or damaged. Who verifies with --key needs the new public key after both.

Exit codes: 0 replaced, 1 it failed or is not in force yet, 2 wrong command line, 4 an earlier rotation is not in force yet.`,
		Example: "  inspan rotate anchor-key\n  inspan rotate anchor-key --dry-run\n  inspan rotate anchor-key --leaked --since 48211\n" +
			"  inspan rotate anchor-key --file anchor.key --station default",
		Args: app.Args(0), RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.store, "store", a.Folder, "folder of the station (INSPAN_STORE)")
	f.StringVar(&c.file, "file", "", "file of the key of a persister of its own, in place of the one in the store")
	f.BoolVar(&c.leaked, "leaked", false, "others have the old key: it does not certify the new one")
	f.BoolVar(&c.lost, "lost", false, "the old key is gone or damaged")
	f.Uint64Var(&c.since, "since", 0, "with --leaked: last position of the log up to which anchors of the old key are accepted; default: all so far")
	f.BoolVar(&c.dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

func (a *anchorKeyCommand) run(cmd *cobra.Command, _ []string) error {
	k := station.KeyRotation{Station: a.App.Station, Store: a.store, File: a.file, Reason: events.KeyWasRotated,
		NotAfter: a.since, DryRun: a.dryRun, Now: time.Now}
	switch {
	case a.leaked && a.lost:
		return app.Usage("--leaked and --lost: name one of them")
	case a.since > 0 && !a.leaked:
		return app.Usage("--since is the end of a key that leaked: it goes with --leaked")
	case a.leaked:
		k.Reason = events.KeyHasLeaked
	case a.lost:
		k.Reason = events.KeyIsLost
	}
	alive := false
	if a.file == "" {
		var running station.Record
		if a.App.Lookup("INSPAN_ANCHOR_KEY", "") != "" {
			return app.Usage("the key of anchors is set by INSPAN_ANCHOR_KEY, not by the store: put it into a file, name that with INSPAN_ANCHOR_KEY_FILE, and rotate it with --file")
		}
		if running, alive = station.Find(cmd.Context(), ".", a.store); alive {
			k.Store, k.Station = running.Store, running.Station
		}
	} else {
		k.Chain = a.chain(cmd.Context())
	}
	out, err := station.RotateKey(cmd.Context(), k)
	switch {
	case errors.Is(err, station.ErrPending):
		return app.Exit(app.ExitRefused, err)
	case errors.Is(err, station.ErrOtherName):
		return app.Usage("%w", err)
	case err != nil:
		return err
	}
	if alive && !a.dryRun {
		if err := a.taken(cmd.Context(), k.Store); err != nil {
			return err
		}
		out.InForce = true
	}
	if a.App.JSON {
		return a.App.PrintJSON(out)
	}
	a.report(out, alive)
	return nil
}

// chain is what the log of a station has, where one answers: it shows whether an earlier rotation is in force.
func (a *anchorKeyCommand) chain(ctx context.Context) []keychain.Link {
	c, err := a.App.Connect(ctx)
	if err != nil {
		return nil // then a file that has a link counts as not taken up
	}
	defer c.Close()
	chain, err := operator.KeyChain(ctx, c)
	if err != nil {
		return nil
	}
	return chain
}

// taken waits until the station signs with the new key.
func (a *anchorKeyCommand) taken(ctx context.Context, store string) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	tick := time.NewTicker(takenEvery)
	defer tick.Stop()
	for {
		switch done, err := station.KeyInForce(store); {
		case err != nil:
			return err
		case done:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the key is replaced in %s, and the station has not taken it up within %s: its log says why; --wait waits longer, and its next start takes it up, too",
				store, a.App.Wait)
		case <-tick.C:
		}
	}
}

func (a *anchorKeyCommand) report(out station.RotatedKey, alive bool) {
	p := a.App.Paint()
	if a.dryRun {
		fmt.Fprintf(a.App.Out, "Would replace the key of anchors %s in %s by a new one (%s).\n", cmp.Or(out.Old, "that is lost"),
			out.File, out.Reason)
		return
	}
	fmt.Fprintf(a.App.Out, "%s The key of anchors is replaced (%s).\n", p.Green("✓"), out.Reason)
	a.App.Pairs([][2]string{{"old key", cmp.Or(out.Old, "unknown")}, {"new key", p.Bold(out.New)}, {"public key", out.Public},
		{"file", out.File}})
	switch {
	case out.InForce:
		fmt.Fprintln(a.App.Err, "It is in force: anchors of the old key are accepted up to here and not after.")
	case a.file != "":
		fmt.Fprintln(a.App.Err, p.Yellow("Give each persister this file (INSPAN_ANCHOR_KEY_FILE) and start it again: until then the old key is in force."))
	default:
		fmt.Fprintln(a.App.Err, "No station runs here: the new key is in force from its next start on.")
	}
	if out.Reason != events.KeyWasRotated {
		fmt.Fprintln(a.App.Err, "The old key does not certify it: whoever verifies with --key needs the new public key. inspan rebuild signs the heads of all runs again with it.")
	}
}
