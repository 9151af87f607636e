package jet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// denials tells those who wait for an answer that the server did not let their request through: it says so on the
// side, with nothing but the subject, and the answer never comes.
type denials struct {
	mu sync.Mutex
	// waiting by subject, guarded by mu, as is deaf: why this connection hears no answer at all, nil where it does.
	waiting map[string]map[*waiter]struct{}
	deaf    error
}

// fallDeaf ends all who wait for an answer, now and later: the server does not let this user hear answers where the
// connection wants them. hearing takes that back, for a connection that was made again with other credentials.
func (d *denials) fallDeaf(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = err
	for _, all := range d.waiting {
		for w := range all {
			w.cancel(err)
		}
	}
}

func (d *denials) hearing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = nil
}

type waiter struct{ cancel context.CancelCauseFunc }

// watch returns a context that ends with ErrDenied when publishing on the subject is denied. done must be called.
func (d *denials) watch(ctx context.Context, subject string) (watched context.Context, done func()) {
	watched, cancel := context.WithCancelCause(ctx)
	w := &waiter{cancel: cancel}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf != nil {
		cancel(d.deaf)
	}
	if d.waiting == nil {
		d.waiting = make(map[string]map[*waiter]struct{})
	}
	if d.waiting[subject] == nil {
		d.waiting[subject] = make(map[*waiter]struct{})
	}
	d.waiting[subject][w] = struct{}{}
	return watched, func() {
		cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting[subject], w)
		if len(d.waiting[subject]) == 0 {
			delete(d.waiting, subject)
		}
	}
}

// deniedError is ErrDenied for one subject.
type deniedError struct {
	// subject is what was asked, and as what the account of this user has mapped it to.
	subject, as string
}

func (e *deniedError) Error() string { return fmt.Sprintf("%v: publish on %s", ErrDenied, e.subject) }

func (*deniedError) Unwrap() error { return ErrDenied }

// fail ends all who wait for an answer on a denied subject and reports whether there were any.
func (d *denials) fail(subject, as string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiting[subject] {
		w.cancel(&deniedError{subject: subject, as: as})
	}
	return len(d.waiting[subject]) > 0
}

// asyncError receives what the server reports on the side.
func (c *Conn) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		if subject, as, ok := deniedPublish(err); ok && c.denied.fail(subject, as) {
			return
		}
		if subject, ok := deniedSubscription(err); ok && strings.HasPrefix(subject, c.cfg.inboxPrefix()) {
			c.denied.fallDeaf(fmt.Errorf("%w: receive answers on %s: these credentials are of a user who receives them elsewhere, such as another service", ErrDenied, subject))
		}
		c.cfg.Log.Error().Err(err).Msg("denied by nats: compare the user's permissions with those that inspan generates")
		return
	}
	if refused(err) {
		c.cfg.Log.Error().Err(c.cfg.refusal(err)).Msg("nats refuses the credentials; this program goes on by itself once they are good")
		return
	}
	event := c.cfg.Log.Warn().Err(err)
	if sub != nil {
		event = event.Str("subject", sub.Subject)
	}
	event.Msg("nats reports an error")
}

// deniedPublish finds the subject in the server's words: Permissions Violation for Publish to "subject". Where the
// account borrows its streams from another, the server names what $JS.API is mapped to there: as.
func deniedPublish(err error) (subject, as string, ok bool) {
	_, quoted, ok := strings.Cut(err.Error(), "Publish to ")
	if !ok {
		return "", "", false
	}
	quoted, errPrefix := strconv.QuotedPrefix(quoted)
	if errPrefix != nil {
		return "", "", false
	}
	as, errQuote := strconv.Unquote(quoted)
	subject = as
	if rest, ok := strings.CutPrefix(subject, "$JS."); ok {
		if _, api, mapped := strings.Cut(rest, ".API."); mapped {
			subject = apiPrefix + api
		}
	}
	return subject, as, errQuote == nil
}

// deniedSubscription finds the subject in: Permissions Violation for Subscription to "subject".
func deniedSubscription(err error) (subject string, ok bool) {
	_, quoted, ok := strings.Cut(err.Error(), "Subscription to ")
	if !ok {
		return "", false
	}
	quoted, errPrefix := strconv.QuotedPrefix(quoted)
	if errPrefix != nil {
		return "", false
	}
	subject, errQuote := strconv.Unquote(quoted)
	return subject, errQuote == nil
}

// inboxPrefix is what the subjects begin with on which answers come.
func (cfg Config) inboxPrefix() string { return cmp.Or(cfg.InboxPrefix, "_INBOX") + "." }

// redactURL leaves out what is secret in a list of server URLs.
func redactURL(list string) string {
	var shown []string
	for part := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil:
			shown = append(shown, "(not a URL)")
		case u.User != nil:
			u.User = url.User("***")
			shown = append(shown, u.String())
		default:
			shown = append(shown, u.String())
		}
	}
	return strings.Join(shown, ",")
}
