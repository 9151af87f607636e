package precheck

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/halts"
	"github.com/inspan/inspan/pkg/client"
)

// Halted says on standard error that what is dispatched now waits, where the station is halted. Where it has moved the
// task would wait for ever, which is an error.
func Halted(ctx context.Context, a *app.App, c *client.Client) error {
	h, err := client.NewHalts(c).Get(ctx)
	switch {
	case err != nil || !h.Halted: // what dispatches says why nothing can be read
		return nil
	case h.MovedTo != "":
		return app.Exit(app.ExitRefused, fmt.Errorf("station %s has moved to %s, and nothing runs here: %s", a.Station,
			h.MovedTo, halts.Hint(h)))
	}
	fmt.Fprintf(a.Err, "inspan: the station is %s; the task waits until inspan release\n", halts.Line(h, time.Now()))
	return nil
}
