// Package otlp exports spans and metrics over OTLP/HTTP in protobuf. It is written here because the exporters of
// OpenTelemetry link gRPC (docs/adr/0018).
//
// Promises: the standard variables hold for headers, time limits, compression, certificates and temporality, those of
// one signal before those of both, and a wrong one is refused at the start. A receiver that is busy or away is asked
// again for up to a minute. No redirect is followed, and no error holds an address or a header: they may hold a
// password.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Limits of an export.
const (
	// defaultExportTime bounds one try where OTEL_EXPORTER_OTLP_TIMEOUT says nothing.
	defaultExportTime = 10 * time.Second
	// retryFirst is the wait before the second try, which doubles up to retryMost; retryTime bounds them all.
	retryFirst, retryMost, retryTime = 5 * time.Second, 30 * time.Second, time.Minute
	// maxReply is how much of a receiver's reply is read.
	maxReply = 64 << 10
)

// receiver takes the protobuf messages of one signal.
type receiver struct {
	address string
	headers http.Header
	gzip    bool
	client  *http.Client
	// first is retryFirst, but in tests.
	first time.Duration
}

// newReceiver reads the variables of a signal, TRACES or METRICS, each of which goes before the one for both.
func newReceiver(address, signal string) (*receiver, error) {
	of := func(name string) string {
		if v := os.Getenv("OTEL_EXPORTER_OTLP_" + signal + "_" + name); v != "" {
			return v
		}
		return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	r := &receiver{address: address, headers: http.Header{}, first: retryFirst}
	for pair := range strings.SplitSeq(of("HEADERS"), ",") {
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); found && name != "" && err == nil {
			r.headers.Set(name, value)
		} else if strings.TrimSpace(pair) != "" {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list such as name=value,other=value") // values may be keys
		}
	}
	switch of("COMPRESSION") {
	case "gzip":
		r.gzip = true
	case "", "none":
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %.40q, want gzip or none", of("COMPRESSION"))
	}
	limit := defaultExportTime
	if v := of("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %.40q, want milliseconds", v)
		}
		limit = time.Duration(ms) * time.Millisecond
	}
	keys, err := certificates(of("CERTIFICATE"), of("CLIENT_CERTIFICATE"), of("CLIENT_KEY"))
	if err != nil {
		return nil, err
	}
	r.client = &http.Client{Timeout: limit, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
		TLSClientConfig: keys, ForceAttemptHTTP2: true,
		MaxIdleConns: 2, IdleConnTimeout: 90 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return r, nil
}

// certificates are the authorities of a receiver and our own certificate, from files; nil is what the system trusts.
func certificates(authorities, own, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		text, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", authorities)
		}
	}
	if own != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(own, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// send exports a message, and tries again for up to a minute where the receiver is busy or cannot be reached.
func (r *receiver) send(ctx context.Context, m proto.Message) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("write OTLP: %w", err)
	}
	if r.gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body); err != nil {
			return fmt.Errorf("compress OTLP: %w", err)
		}
		if err := z.Close(); err != nil {
			return fmt.Errorf("compress OTLP: %w", err)
		}
		body = b.Bytes()
	}
	begun := time.Now()
	for wait := r.first; ; wait = min(2*wait, retryMost) {
		asked, err := r.try(ctx, body)
		if again, ok := errors.AsType[*busyError](err); !ok || ctx.Err() != nil {
			return err
		} else if pause := max(asked, wait/2+rand.N(wait)); time.Since(begun)+pause > retryTime {
			return again.cause
		} else if err := sleep(ctx, pause); err != nil {
			return errors.Join(again.cause, err)
		}
	}
}

// busyError is a try that may go better later.
type busyError struct{ cause error }

func (b *busyError) Error() string { return b.cause.Error() }

// Unwrap returns the cause.
func (b *busyError) Unwrap() error { return b.cause }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try exports a message once. wait is what a busy receiver asked for.
func (r *receiver) try(ctx context.Context, body []byte) (wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("export to OTLP receiver: invalid address")
	}
	req.Header = r.headers.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "inspan")
	if r.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := r.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return 0, &busyError{fmt.Errorf("export to OTLP receiver: %w", err)}
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		if err == nil && res.Header.Get("Content-Type") == "application/x-protobuf" {
			return 0, rejected(reply)
		}
		return 0, nil
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable,
		code == http.StatusGatewayTimeout:
		return retryAfter(res.Header.Get("Retry-After")), &busyError{fmt.Errorf("export to OTLP receiver: it responded %s",
			res.Status)}
	}
	return 0, fmt.Errorf("export to OTLP receiver: it responded %s", res.Status)
}

func retryAfter(value string) time.Duration {
	if s, err := strconv.Atoi(value); err == nil && s > 0 {
		return time.Duration(min(s, int(retryTime/time.Second)+1)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// rejected is the error of a reply that says that a part was not taken: the field partial_success, in it a count and a
// text. It reads the wire format because the types of replies link gRPC.
func rejected(reply []byte) error {
	var count uint64
	text := ""
	_ = fields(reply, func(number protowire.Number, _ uint64, partial []byte) {
		if number == 1 {
			_ = fields(partial, func(number protowire.Number, n uint64, said []byte) {
				switch number {
				case 1:
					count = n
				case 2:
					text = string(said)
				}
			})
		}
	})
	if count == 0 && text == "" {
		return nil
	}
	return fmt.Errorf("export to OTLP receiver: %d items rejected: %.200q", count, text)
}

// fields calls f for each field of a message that is a number or bytes.
func fields(b []byte, f func(number protowire.Number, n uint64, bytes []byte)) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(number, kind, b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b)
			f(number, v, nil)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(b)
			f(number, 0, v)
		}
		b = b[n:]
	}
	return nil
}

// NewSpans is the exporter of spans to a whole address.
func NewSpans(ctx context.Context, address string) (*otlptrace.Exporter, error) {
	to, err := newReceiver(address, "TRACES")
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, spanClient{to})
}

// spanClient carries the spans of otlptrace, which makes OTLP of them.
type spanClient struct{ *receiver }

// Start implements otlptrace.Client.
func (spanClient) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c spanClient) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. TracesData is on the wire what an ExportTraceServiceRequest is.
func (c spanClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	return c.send(ctx, &tracepb.TracesData{ResourceSpans: spans})
}
