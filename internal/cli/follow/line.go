package follow

import (
	"fmt"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// PrintItem prints one event, as its JSON or in words. Its very bytes are what inspan export prints.
func PrintItem(a *app.App, item client.Item) {
	if a.JSON {
		fmt.Fprintf(a.Out, "%s\n", events.Plain(item.Bytes))
		return
	}
	text, p := view.Line(item.Event, item.Payload, a.Zone()), a.Paint()
	switch item.Payload.Kind() {
	case events.GateOpened, events.RunPaused:
		text = p.Yellow(text)
	case events.RunCompleted:
		text = p.Green(text)
	case events.RunFailed, events.StepFailed, events.CallFailed:
		text = p.Red(text)
	default:
	}
	fmt.Fprintln(a.Out, text)
}
