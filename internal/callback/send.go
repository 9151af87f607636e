package callback

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/notify"
)

const (
	// attemptWait is how long one attempt may take.
	attemptWait = 20 * time.Second
	// maxAnswer is the most bytes that are read of an answer, maxAnswerHeader of its header.
	maxAnswer       = 16 << 10
	maxAnswerHeader = 16 << 10
)

// goneError says that a receiver wants no more calls.
type goneError struct{ status int }

func (e *goneError) Error() string {
	return fmt.Sprintf("the receiver answered %d: it wants this call no more", e.status)
}

// waitError is a failure whose next attempt the receiver puts off.
type waitError struct {
	status int
	least  time.Duration
}

func (e *waitError) Error() string { return fmt.Sprintf("the receiver answered %d", e.status) }

// send makes a call once.
func (t Target) send(ctx context.Context, d Delivery) error {
	switch t.File.Kind {
	case Webhook:
		return t.post(ctx, d.Body, t.signed(d, time.Now()))
	case Slack:
		b, err := json.Marshal(map[string]string{"text": slackText(d.Notice)})
		if err != nil {
			return fmt.Errorf("encode a message: %w", err)
		}
		return t.post(ctx, b, nil)
	case Mail:
		return t.mail(ctx, d)
	}
	return fmt.Errorf("the kind %q is not known", t.File.Kind)
}

// signed are the headers of Standard Webhooks.
func (t Target) signed(d Delivery, now time.Time) map[string]string {
	key, _ := base64.StdEncoding.DecodeString(t.key.Reveal()) // it was encoded here
	stamp := strconv.FormatInt(now.Unix(), 10)
	m := hmac.New(sha256.New, key)
	m.Write([]byte(d.ID + "." + stamp + "."))
	m.Write(d.Body)
	return map[string]string{"webhook-id": d.ID, "webhook-timestamp": stamp,
		"webhook-signature": "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))}
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackText is a notice as Slack shows it. What could be a link, a mention or a command of its markup is none.
func slackText(n notify.Notice) string {
	quiet := strings.NewReplacer("`", "'")
	away := n.Away()
	if away != "" {
		away = "\n" + slackEscapes.Replace(quiet.Replace(away))
	}
	return slackEscapes.Replace(n.Text) + "\nrun `" + slackEscapes.Replace(quiet.Replace(n.Run)) + "` of station `" +
		slackEscapes.Replace(quiet.Replace(n.Station)) + "`: `" + slackEscapes.Replace(quiet.Replace(n.Command)) + "`" + away
}

// dialer reaches public addresses, and those of private networks where the file says so. What a name stands for is
// judged when it is dialled, not before.
func (t Target) dialer() *net.Dialer {
	return &net.Dialer{Timeout: attemptWait, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q: %w", address, err)
		}
		a := to.Addr().Unmap().WithZone("")
		if policy.Public(a) || t.File.Private && (a.IsLoopback() || a.IsPrivate()) {
			return nil
		}
		return fmt.Errorf("%s is no public address: private = true in the file of the callback allows those of your own network", a)
	}}
}

// post sends a body. The error names no URL, which may be a secret.
func (t Target) post(ctx context.Context, body []byte, header map[string]string) error {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: t.dialer().DialContext, TLSHandshakeTimeout: attemptWait,
			ResponseHeaderTimeout: attemptWait, MaxResponseHeaderBytes: maxAnswerHeader, DisableKeepAlives: true,
			DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.Reveal(), bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the callback cannot be called")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "inspan-callback/1")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := c.Do(req)
	if err != nil {
		if in, ok := errors.AsType[*url.Error](err); ok {
			err = in.Err
		}
		return fmt.Errorf("call: %w", err)
	}
	defer func() { _ = res.Body.Close() }()                         // what it says was read
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // only its status counts
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusGone:
		return &goneError{res.StatusCode}
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fmt.Errorf("the receiver answered %d: redirects are not followed, name the last address", res.StatusCode)
	}
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // a date counts as none
	return &waitError{res.StatusCode, time.Duration(max(0, min(seconds, int(maxLeast/time.Second)))) * time.Second}
}
