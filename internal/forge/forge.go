// Package forge asks for reviews of branches at GitHub and GitLab, by their REST APIs.
//
// Promises: a request for a review of a branch is made once: one that is open is found before another is made, also
// where the answer to making it was lost. What is told of a request stood in an answer of the forge: it is open, of
// that branch, and at that commit. A forge is dialled only at an address that may be reached, redirects are not
// followed, and a token is shown only to the host that it is for; no error has it. Errors are *tool.Error with the
// class that says whether a later try may succeed. What a forge answers is a stranger's: it is bounded, and read as
// data.
package forge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/tool"
)

// The forges, as requests name them.
const (
	GitHub = "github"
	GitLab = "gitlab"
)

// Limits of one exchange.
const (
	maxAnswer   = 1 << 20
	timeout     = 30 * time.Second
	maxTitle    = 200
	maxReason   = 300
	dialTimeout = 10 * time.Second
)

// Config says how forges are reached.
type Config struct {
	// Token gives what a host is shown, empty for nothing; host has its port if it has one.
	Token func(ctx context.Context, scheme, host string) (secret.Value, error)
	// Reach gives the addresses at which a host may be reached, none where a proxy finds them.
	Reach func(ctx context.Context, scheme, host string) ([]netip.Addr, error)
	// Plain lets http be spoken. Proxy, if set, dials; CAFile, if set, has the certificates that are trusted.
	Plain         bool
	Proxy, CAFile string
}

// Client speaks to forges. It may be used by several goroutines.
type Client struct {
	cfg  Config
	http *http.Client
}

// New checks a Config.
func New(cfg Config) (*Client, error) {
	if cfg.Token == nil || cfg.Reach == nil {
		return nil, errors.New("a client of forges needs tokens and what may be reached")
	}
	c := &Client{cfg: cfg}
	t := &http.Transport{DisableKeepAlives: true, DialContext: c.dial, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: timeout}
	if cfg.Proxy != "" {
		proxy, err := url.Parse(cfg.Proxy)
		if err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
		t.Proxy, t.DialContext = http.ProxyURL(proxy), nil
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", cfg.CAFile)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c.http = &http.Client{Transport: t, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return c, nil
}

// dial dials a host at an address that was judged.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	at, err := c.cfg.Reach(ctx, "https", addr)
	if err != nil {
		return nil, err
	}
	failed := fmt.Errorf("host %s has no address", addr)
	for _, a := range at {
		d := net.Dialer{Timeout: dialTimeout}
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}

// Ask is a review that is asked for.
type Ask struct {
	// How is GitHub or GitLab.
	How string
	// Repo is the address of the repository; Branch has Commit there, and is to go to Target.
	Repo, Branch, Commit, Target string
	Title, Body                  string
}

// Review is a request for a review that is open.
type Review struct {
	How    string `json:"how"`
	Number int    `json:"number"`
	URL    string `json:"url"`
	Commit string `json:"commit"`
}

// api is one forge.
type api interface {
	// find lists the open requests of a branch, make makes one. exists is true where there is one already.
	find(ctx context.Context, a Ask) ([]Review, error)
	make(ctx context.Context, a Ask) (r Review, exists bool, err error)
}

// Open returns the open request of a branch, and makes it where there is none.
func (c *Client) Open(ctx context.Context, a Ask) (*Review, error) {
	f, err := c.at(a)
	if err != nil {
		return nil, err
	}
	there, err := found(ctx, f, a)
	if err != nil || there != nil {
		return there, err
	}
	a.Title = oneLine(a.Title)
	r, exists, err := f.make(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return checked(r, a)
	}
	if there, err = found(ctx, f, a); err == nil && there == nil {
		err = tool.Fail(tool.Permanent, "look at the requests of the branch at the forge",
			fmt.Errorf("%s neither makes a request for %s nor has one", a.How, a.Branch))
	}
	return there, err
}

// Find returns the open request of a branch; nil where there is none.
func (c *Client) Find(ctx context.Context, a Ask) (*Review, error) {
	f, err := c.at(a)
	if err != nil {
		return nil, err
	}
	return found(ctx, f, a)
}

func found(ctx context.Context, f api, a Ask) (*Review, error) {
	all, err := f.find(ctx, a)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return checked(all[0], a)
}

// checked refuses a request that is not at the commit that is to be reviewed.
func checked(r Review, a Ask) (*Review, error) {
	if r.Commit != a.Commit {
		return nil, tool.Fail(tool.Transient, "wait until the forge has seen the push",
			fmt.Errorf("request %d of %s is at %.12s and not at %.12s", r.Number, a.Branch, r.Commit, a.Commit))
	}
	if u, err := url.Parse(r.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || len(r.URL) > 1<<10 {
		r.URL = ""
	}
	return &r, nil
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxTitle)], "")
}

// at is the forge of a repository.
func (c *Client) at(a Ask) (api, error) {
	scheme, host, path, err := place(a.Repo)
	if err == nil && scheme == "http" && !c.cfg.Plain {
		err = errors.New("http is not an allowed protocol here")
	}
	if err != nil {
		return nil, tool.Fail(tool.Invalid, "name a repository at the forge by https or ssh",
			fmt.Errorf("review of %.200q: %w", a.Repo, err))
	}
	s := &site{Client: c, scheme: scheme, host: host}
	switch a.How {
	case GitHub:
		s.base = scheme + "://" + host + "/api/v3"
		if host == "github.com" {
			s.base = "https://api.github.com"
		}
		return gitHub{s, path}, nil
	case GitLab:
		s.base = scheme + "://" + host + "/api/v4"
		return gitLab{s, path}, nil
	}
	return nil, tool.Fail(tool.Invalid, "want github or gitlab", fmt.Errorf("unknown forge %.40q", a.How))
}

// place takes the address of a repository apart. That of ssh is asked by https.
func place(repo string) (scheme, host, path string, err error) {
	if !strings.Contains(repo, "://") {
		login, rest, ok := strings.Cut(repo, ":")
		if _, host, ok2 := strings.Cut(login, "@"); ok && ok2 {
			repo = "ssh://git@" + host + "/" + rest
		}
	}
	u, err := url.Parse(repo)
	if err != nil {
		return "", "", "", errors.New("the address is no URL")
	}
	scheme, host = u.Scheme, u.Host
	if scheme == "ssh" {
		scheme, host = "https", u.Hostname()
	}
	path = strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	if scheme != "https" && scheme != "http" || host == "" || strings.Count(path, "/") < 1 ||
		strings.Contains(path, "..") {
		return "", "", "", errors.New("it is no repository of a forge")
	}
	return scheme, strings.ToLower(host), path, nil
}

// site is the API of one host.
type site struct {
	*Client
	scheme, host, base string
}

// call makes one request and decodes the answer. codes are the statuses that are no fault; others is any of them that
// has no document to decode.
func (s *site) call(ctx context.Context, method, path string, body, into any, codes ...int) (int, error) {
	token, err := s.cfg.Token(ctx, s.scheme, s.host)
	if err != nil {
		return 0, err
	}
	if s.cfg.Proxy != "" {
		if _, err := s.cfg.Reach(ctx, s.scheme, s.host); err != nil {
			return 0, tool.Fail(tool.Denied, "an operator can allow the host in INSPAN_GIT_HOSTS", err)
		}
	}
	var send io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		send = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, send)
	if err != nil {
		return 0, tool.Fail(tool.Invalid, "", errors.New("the address of the forge is no URL"))
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "inspan")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !token.Empty() {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	res, err := s.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, tool.Fail(tool.Transient, "the request is made again later",
			fmt.Errorf("%s does not answer: %s", s.host, hidden(err.Error(), token)))
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil || len(answer) > maxAnswer {
		return 0, tool.Fail(tool.Transient, "the request is made again later",
			fmt.Errorf("the answer of %s is cut off or too long", s.host))
	}
	for _, code := range codes {
		if res.StatusCode != code {
			continue
		}
		if code < 300 {
			if err := json.Unmarshal(answer, into); err != nil {
				return 0, tool.Fail(tool.Permanent, "check whether the repository is at this kind of forge",
					fmt.Errorf("the answer of %s is no such document", s.host))
			}
		}
		return code, nil
	}
	return 0, status(s.host, res.StatusCode, hidden(string(answer), token))
}

// status is the error of an answer.
func status(host string, code int, answer string) error {
	var said struct {
		Message any `json:"message"`
	}
	_ = json.Unmarshal([]byte(answer), &said)
	why := ""
	if said.Message != nil {
		why = ": " + oneLine(fmt.Sprint(said.Message))
	}
	err := fmt.Errorf("%s answers %d%s", host, code, why[:min(len(why), maxReason)])
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return tool.Fail(tool.Denied, "check the credential of this host in INSPAN_EGRESS_CREDENTIALS, and that it may open requests", err)
	case code == http.StatusNotFound:
		return tool.Fail(tool.Invalid, "check the repository, and that the credential may see it", err)
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError:
		return tool.Fail(tool.Transient, "the request is made again later", err)
	}
	return tool.Fail(tool.Permanent, "read the message of the forge", err)
}

// hidden is a text without a token.
func hidden(text string, token secret.Value) string {
	if token.Empty() {
		return text
	}
	return strings.ReplaceAll(text, token.Reveal(), "***")
}

// gitHub is the REST API of GitHub.
type gitHub struct {
	*site
	path string
}

type pull struct {
	Number int    `json:"number"`
	URL    string `json:"html_url"`
	State  string `json:"state"`
	Head   struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"`
	} `json:"head"`
}

func (p pull) review() Review {
	return Review{How: GitHub, Number: p.Number, URL: p.URL, Commit: p.Head.SHA}
}

func (g gitHub) pulls() string { return "/repos/" + (&url.URL{Path: g.path}).EscapedPath() + "/pulls" }

func (g gitHub) find(ctx context.Context, a Ask) (open []Review, err error) {
	owner, _, _ := strings.Cut(g.path, "/")
	q := url.Values{"state": {"open"}, "head": {owner + ":" + a.Branch}, "base": {a.Target}, "per_page": {"10"}}
	var all []pull
	if _, err := g.call(ctx, http.MethodGet, g.pulls()+"?"+q.Encode(), nil, &all, http.StatusOK); err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.State == "open" && p.Head.Ref == a.Branch {
			open = append(open, p.review())
		}
	}
	return open, nil
}

func (g gitHub) make(ctx context.Context, a Ask) (Review, bool, error) {
	var p pull
	code, err := g.call(ctx, http.MethodPost, g.pulls(),
		map[string]string{"title": a.Title, "body": a.Body, "head": a.Branch, "base": a.Target}, &p,
		http.StatusCreated, http.StatusUnprocessableEntity)
	return p.review(), code == http.StatusUnprocessableEntity, err
}

// gitLab is the REST API of GitLab.
type gitLab struct {
	*site
	path string
}

type mergeRequest struct {
	Number int    `json:"iid"`
	URL    string `json:"web_url"`
	State  string `json:"state"`
	Branch string `json:"source_branch"`
	SHA    string `json:"sha"`
}

func (m mergeRequest) review() Review {
	return Review{How: GitLab, Number: m.Number, URL: m.URL, Commit: m.SHA}
}

func (g gitLab) requests() string { return "/projects/" + url.PathEscape(g.path) + "/merge_requests" }

func (g gitLab) find(ctx context.Context, a Ask) (open []Review, err error) {
	q := url.Values{"state": {"opened"}, "source_branch": {a.Branch}, "target_branch": {a.Target}, "per_page": {"10"}}
	var all []mergeRequest
	if _, err := g.call(ctx, http.MethodGet, g.requests()+"?"+q.Encode(), nil, &all, http.StatusOK); err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.State == "opened" && m.Branch == a.Branch {
			open = append(open, m.review())
		}
	}
	return open, nil
}

func (g gitLab) make(ctx context.Context, a Ask) (Review, bool, error) {
	var m mergeRequest
	code, err := g.call(ctx, http.MethodPost, g.requests(),
		map[string]string{"title": cmp.Or(a.Title, a.Branch), "description": a.Body, "source_branch": a.Branch,
			"target_branch": a.Target}, &m, http.StatusCreated, http.StatusConflict)
	return m.review(), code == http.StatusConflict, err
}
