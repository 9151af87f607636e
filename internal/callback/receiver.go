package callback

import (
	"context"
	"errors"
	"time"
)

// Receiver is a program of others that is called with signed bodies, as a webhook is.
type Receiver struct{ t Target }

// NewReceiver makes one. key signs, and may begin with whsec_; private lets it be at a private or loopback address, and
// at http.
func NewReceiver(address, key string, private bool) (Receiver, error) {
	const at, with = "secret:url", "secret:key"
	t := Target{File: File{Kind: Webhook, URL: at, Secret: with, Private: private}}
	err := t.secrets(func(ref string) (string, error) { return map[string]string{at: address, with: key}[ref], nil })
	return Receiver{t}, err
}

// Post calls it once, with the headers of Standard Webhooks.
func (r Receiver) Post(ctx context.Context, id, mediaType string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	header := r.t.signed(Delivery{ID: id, Body: body}, time.Now())
	header["Content-Type"] = mediaType
	return r.t.post(ctx, body, header)
}

// Refusal is the status that a receiver answered a call with, 0 where it did not answer, and how long it wants to be
// left alone.
func Refusal(err error) (status int, least time.Duration) {
	if gone, ok := errors.AsType[*goneError](err); ok {
		return gone.status, 0
	}
	if w, ok := errors.AsType[*waitError](err); ok {
		return w.status, w.least
	}
	return 0, 0
}
