package workitems

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// home takes repository and branch from the merge queue where the flags name none.
func (a *assignCommand) home(ctx context.Context, c *client.Client) error {
	if a.how.Queue == "" || a.d.Repo != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	q, err := client.NewMergeQueues(c).Get(ctx, a.how.Queue)
	if err != nil {
		return fmt.Errorf("%w; inspan queue list lists those of the station", err)
	}
	if a.d.Repo = q.Spec.Repo; a.d.Branch == "" && a.d.Ref == "" {
		a.d.Branch = q.Spec.Branch
	}
	return nil
}

// deliveryRows are what is shown of the last delivery of an item.
func deliveryRows(w events.WorkItem) (rows [][2]string) {
	d := w.Delivery
	if d == nil {
		return nil
	}
	phase := string(d.Phase)
	if d.Phase == events.DeliveryIsNotified && d.Queue != "" {
		phase += ", waits for the merge queue " + d.Queue
	}
	if d.Code != "" {
		phase += fmt.Sprintf(" (%s): %s", d.Code, view.Clip(d.Reason, 300))
	}
	rows = append(rows, [2]string{"delivery", phase})
	if d.Commit != "" {
		rows = append(rows, [2]string{"branch", fmt.Sprintf("%s at %.12s", d.Branch, d.Commit)})
	}
	if d.Review != nil && d.Review.URL != "" {
		rows = append(rows, [2]string{"review", view.Clip(d.Review.URL, 300)})
	}
	if d.Landed != "" {
		rows = append(rows, [2]string{"landed", fmt.Sprintf("on %s at %.12s", d.Target, d.Landed)})
		if d.Kept != "" {
			rows = append(rows, [2]string{"branch kept", view.Clip(d.Kept, 300)})
		}
	}
	return rows
}
