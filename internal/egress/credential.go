package egress

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/secret"
)

// shortest is how many characters a part of a credential has that is masked by itself: a shorter one would be found in
// words that only look like it.
const shortest = 8

// Credential is a header that the proxy adds to requests for one host, so that no tool ever holds it. It replaces a
// header of that name that the tool sent. Any call may use it whose list lets the host through.
type Credential struct {
	// Host is a name, with a port where it is not that of the scheme. There are no wildcards.
	Host string
	// Plain adds it to requests of plain HTTP, and to no others; without it, to those of HTTPS alone.
	Plain bool
	// Header is the name of the header, Value all of its value, for example "Bearer ...".
	Header string
	Value  secret.Value

	target policy.Target
	parts  [][]byte // what is masked in answers, longest first
}

func (c *Credential) secure() bool { return !c.Plain }

// Check tells whether a credential can be used, and readies it. Errors do not repeat its value.
func (c *Credential) Check() error {
	usual := uint16(policy.PortHTTPS)
	if c.Plain {
		usual = policy.PortHTTP
	}
	t, err := policy.ParseTarget(c.Host, usual)
	switch {
	case err != nil:
		return errHost // it is not repeated: a part of the value may stand where the host should
	case t.Addr.IsValid():
		return errHost
	case !httpguts.ValidHeaderFieldName(c.Header) || hopByHop(c.Header):
		return errHeader
	case len(c.Value.Reveal()) < shortest || !httpguts.ValidHeaderFieldValue(c.Value.Reveal()):
		return errValue
	}
	c.target = t
	whole := c.Value.Reveal()
	c.parts = [][]byte{[]byte(whole)}
	_, bare, _ := strings.Cut(whole, " ")
	plain, err := base64.StdEncoding.DecodeString(bare)
	if !strings.HasPrefix(whole, "Basic ") || err != nil {
		plain = nil
	}
	_, pass, _ := strings.Cut(string(plain), ":")
	for _, part := range []string{bare, string(plain), pass} {
		if len(part) >= shortest {
			c.parts = append(c.parts, []byte(part))
		}
	}
	return nil
}

// Secrets are what must not be seen: the value, and those of its parts that are secret by themselves. Check comes
// first.
func (c *Credential) Secrets() []secret.Value {
	var out []secret.Value
	for _, p := range c.parts {
		out = append(out, secret.New(string(p)))
	}
	return out
}

var (
	errHost   = errors.New("the credential needs a host name, with a port unless it is the default port")
	errHeader = errors.New("the credential needs the name of a header that is sent to hosts, such as Authorization")
	errValue  = errors.New("the credential needs a value of at least 8 characters that are valid in a header")
)

func hopByHop(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Host", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive",
		"Proxy-Authorization", "Proxy-Connection", "Accept-Encoding":
		return true
	}
	return false
}

// credential returns what is added to requests for a target, nil where nothing is.
func (p *Proxy) credential(t policy.Target, scheme string) *Credential {
	for i := range p.cfg.Credentials {
		if c := &p.cfg.Credentials[i]; c.target == t && c.secure() == (scheme == "https") {
			return c
		}
	}
	return nil
}

// ends reports whether the TLS of tunnels to a target ends at the proxy.
func (d *Session) ends(t policy.Target) bool {
	return d.trust != nil && d.proxy.credential(t, "https") != nil
}

// add puts the credential into the headers of a request, and asks for an answer that can be looked through.
func (c *Credential) add(h http.Header) {
	h.Set(c.Header, c.Value.Reveal())
	h.Set("Accept-Encoding", "identity")
}

// hide masks the credential in the body of an answer; one that cannot be looked through is refused.
func (c *Credential) hide(t policy.Target, resp *http.Response) error {
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return policy.Refuse(policy.Hidden, t, "its response is compressed although the request did not allow it", "")
	}
	resp.Trailer = nil
	resp.Header.Del("Trailer")
	resp.Body = &maskedBody{ReadCloser: resp.Body, parts: c.parts, resp: resp}
	return nil
}

func (c *Credential) hideHeader(h http.Header) {
	for name, values := range h {
		for i, v := range values {
			values[i] = string(mask([]byte(v), c.parts))
		}
		if clean := string(mask([]byte(name), c.parts)); clean != name {
			delete(h, name)
		}
	}
}

// maskedWriter masks the headers of answers, the early ones too.
type maskedWriter struct {
	http.ResponseWriter
	held *Credential
}

func (w *maskedWriter) WriteHeader(status int) {
	w.held.hideHeader(w.Header())
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *maskedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// mask puts as many stars in the place of each part, so that lengths stay true. It may change data.
func mask(data []byte, parts [][]byte) []byte {
	for _, p := range parts {
		for at := 0; ; {
			i := bytes.Index(data[at:], p)
			if i < 0 {
				break
			}
			at += i
			for j := range p {
				data[at+j] = '*'
			}
		}
	}
	return data
}

// maskedBody masks parts in a stream. It holds back only an end that could be the beginning of a part.
type maskedBody struct {
	io.ReadCloser
	parts [][]byte
	held  []byte // read and not yet given
	ready int    // how many of held may be given
	err   error
	resp  *http.Response // loses the trailers that came with the end; nil where there is none
}

// Read implements io.Reader.
func (b *maskedBody) Read(p []byte) (int, error) {
	for b.ready == 0 && b.err == nil {
		buf := make([]byte, copyBuffer)
		var n int
		n, b.err = b.ReadCloser.Read(buf)
		b.held = mask(append(b.held, buf[:n]...), b.parts)
		b.ready = len(b.held)
		switch {
		case b.err == nil:
			b.ready -= b.doubtful()
		case b.resp != nil:
			b.resp.Trailer = nil
		}
	}
	n := copy(p, b.held[:b.ready])
	b.held, b.ready = b.held[n:], b.ready-n
	if n == 0 && len(p) > 0 {
		return 0, b.err
	}
	return n, nil
}

// doubtful is the length of the longest end that is the beginning of a part.
func (b *maskedBody) doubtful() int {
	most := 0
	for _, p := range b.parts {
		for n := min(len(p)-1, len(b.held)); n > most; n-- {
			if bytes.HasSuffix(b.held, p[:n]) {
				most = n
			}
		}
	}
	return most
}
