package gateway

import (
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// HaltInfo says whether the station is halted; of a station that was released it is about the last halt.
type HaltInfo struct {
	Halted bool `json:"halted"`
	// Number is that of the last halt, 0 where there was none.
	Number     int       `json:"number"`
	By         string    `json:"by,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	ReleasedBy string    `json:"released_by,omitempty"`
	// MovedTo is where a halted station goes on.
	MovedTo string              `json:"moved_to,omitempty"`
	Past    []events.HaltPeriod `json:"past,omitempty"`
}

// haltRoutes are those of the emergency stop, which HTTP shows and does not order.
func haltRoutes() []route {
	return []route{{method: "GET", path: "/api/v1/halt", scope: tokens.Read, serve: showHalt,
		summary: "Show whether the station is halted, since when, by whom and why", answers: map[int]any{200: HaltInfo{}}}}
}

func showHalt(g *Gateway, c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	h, err := client.NewHalts(g.client).Get(ctx)
	if err != nil {
		return err
	}
	return c.json(200, HaltInfo{Halted: h.Halted, Number: h.Number, By: h.By, Reason: h.Reason, Since: h.Since,
		ReleasedBy: h.ReleasedBy, MovedTo: h.MovedTo, Past: h.Past})
}
