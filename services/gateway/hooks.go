package gateway

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"time"

	"github.com/inspan/inspan/internal/payload"
	"github.com/inspan/inspan/pkg/client"
)

// WebhookAnswer is the answer to the caller of a webhook.
type WebhookAnswer struct {
	Run string `json:"run_id"`
	// Duplicate says that the call came before: it started nothing.
	Duplicate bool `json:"duplicate,omitempty"`
}

// hookWait is how long the call of a webhook waits for its run to begin: senders do not wait long.
const hookWait = 8 * time.Second

// hook starts the run of a webhook's call. Until the call is proven to be its sender's, the caller learns nothing, not
// even whether there is such a webhook.
func (g *Gateway) hook(c *call) error {
	body, err := c.body(maxPayload)
	if err != nil {
		return err
	}
	h := g.hooks[c.r.PathValue("hook")]
	if h == nil {
		h = g.unknown
	}
	identity, err := h.Verify(c.r.Header, body, time.Now())
	if err != nil {
		return unauthorized()
	}
	if p := g.often("webhook " + h.Name); p != nil {
		return p
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &Problem{Status: http.StatusUnsupportedMediaType, Code: "media_type", Detail: "the call is no JSON",
			Hint: "set the content type of the webhook to application/json at its sender"}
	}
	said, err := payload.Read(body)
	if err != nil {
		return &Problem{Status: http.StatusBadRequest, Code: "bad_payload", Detail: err.Error()}
	}
	if !h.Fires(h.Event(c.r.Header, said)) {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	t, err := h.Task(said, h.RunID(identity))
	if err != nil {
		return &Problem{Status: http.StatusUnprocessableEntity, Code: "bad_payload", Detail: err.Error(),
			Hint: "the templates of the webhook need what this payload does not have"}
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), hookWait)
	defer cancel()
	switch _, err := g.digest(ctx, t.ID); {
	case err == nil:
		return c.json(http.StatusOK, WebhookAnswer{Run: t.ID, Duplicate: true})
	case !errors.Is(err, client.ErrNotFound):
		return err
	}
	_, err = g.client.Start(ctx, t)
	if _, stored := errors.AsType[*client.SilentError](err); stored {
		err = nil // it begins when the services run
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusAccepted, WebhookAnswer{Run: t.ID})
}
