package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/tool"
)

const prometheusSchema = `{"type":"object","additionalProperties":false,"required":["query"],"properties":{
"query":{"type":"string","minLength":1,"maxLength":8192,"description":"PromQL, for example sum by (job) (rate(http_requests_total[5m]))"},
"time":{"type":"string","maxLength":64,"description":"when, RFC 3339 or a duration before now such as -1h"},
"start":{"type":"string","maxLength":64,"description":"start of a range, in the format of time"},
"end":{"type":"string","maxLength":64,"description":"end of a range, in the format of time; now if absent"},
"step":{"type":"string","maxLength":32,"description":"interval between the values of a range, for example 1m; a fiftieth of the range if absent"}}}`

// Limits of a query of Prometheus.
const (
	maxPrometheus  = 8 << 20
	prometheusWait = 25 * time.Second
	leastStep      = time.Second
	rangeParts     = 50
)

// PrometheusConfig names the one server that the tool prometheus may ask. The zero value has none, and every call says
// so.
type PrometheusConfig struct {
	// URL of the server, with the path that it is served below, for example http://prometheus:9090.
	URL string
	// Token is sent as a bearer token, if there is one.
	Token secret.Value
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

type prometheusArgs struct{ Query, Time, Start, End, Step string }

// Prometheus returns the tool prometheus. It is the one tool that works outside of the sandbox: it sends queries to the
// server of the configuration and to no other, follows no redirect, and can change nothing there.
func Prometheus(cfg PrometheusConfig) tool.Tool {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return define("prometheus", tool.Read, 0, prometheusSchema, cfg.query)
}

func (c PrometheusConfig) query(ctx context.Context, a prometheusArgs, env tool.Env) (tool.Result, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return tool.Result{}, tool.Fail(tool.Permanent,
			"an operator sets INSPAN_PROMETHEUS_URL on the services of the station, for example http://127.0.0.1:9090",
			errors.New("the station has no Prometheus server"))
	}
	path, form, err := c.form(a)
	if err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "fix the time and retry", err)
	}
	ctx, cancel := context.WithTimeout(ctx, prometheusWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath("api", "v1", path).String(),
		strings.NewReader(form.Encode()))
	if err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "", fmt.Errorf("prometheus: %w", err))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if !c.Token.Empty() {
		req.Header.Set("Authorization", "Bearer "+c.Token.Reveal())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, ctx.Err()
		}
		return tool.Result{}, tool.Fail(tool.Transient, "the server may be down; retry later",
			errors.New("no response from the Prometheus server"))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPrometheus+1))
	if err != nil {
		return tool.Result{}, tool.Fail(tool.Transient, "", fmt.Errorf("read the answer of Prometheus: %w", err))
	}
	if len(body) > maxPrometheus {
		return failed("prometheus: the response has more than %d bytes; aggregate, or use a shorter range or a longer step",
			maxPrometheus), nil
	}
	return answerOf(resp.StatusCode, body, env)
}

// form are the parameters of a query, and which of the two kinds it is.
func (c PrometheusConfig) form(a prometheusArgs) (path string, form url.Values, err error) {
	form = url.Values{"query": {a.Query}}
	now := c.Now()
	if a.Start == "" {
		if a.End != "" || a.Step != "" {
			return "", nil, errors.New("end and step need start")
		}
		at, err := when(a.Time, now)
		form.Set("time", unix(at))
		return "query", form, err
	}
	if a.Time != "" {
		return "", nil, errors.New("give either time, or start and end")
	}
	from, err := when(a.Start, now)
	if err != nil {
		return "", nil, err
	}
	to, err := when(a.End, now)
	if err != nil {
		return "", nil, err
	}
	if !from.Before(to) {
		return "", nil, errors.New("start must be before end")
	}
	step := max(to.Sub(from)/rangeParts, leastStep)
	if a.Step != "" {
		if step, err = time.ParseDuration(a.Step); err != nil || step < leastStep {
			return "", nil, fmt.Errorf("step %q is not a duration of at least %s", a.Step, leastStep)
		}
	}
	form.Set("start", unix(from))
	form.Set("end", unix(to))
	form.Set("step", strconv.FormatFloat(step.Seconds(), 'f', -1, 64))
	return "query_range", form, nil
}

// when reads a time: empty is now, a negative duration is before now.
func when(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d <= 0 {
		return now.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q is neither a time such as 2026-01-02T15:04:05Z nor a duration before now such as -30m", text)
	}
	return t, nil
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64) }

// sample is a time in seconds and a value as text.
type sample [2]any

func (s sample) String() string {
	at, _ := s[0].(float64) // what is no number is shown as the epoch: the server sent it
	return fmt.Sprintf("%v @ %s", s[1], time.UnixMilli(int64(at*1000)).UTC().Format(time.RFC3339))
}

// promAnswer is what the server answers.
type promAnswer struct {
	Status, Error string
	Warnings      []string
	Data          struct {
		ResultType string
		Result     json.RawMessage
	}
}

// write puts a result down: a line for each series, and below it its values where it has many.
func (p promAnswer) write(b *strings.Builder) error {
	switch p.Data.ResultType {
	case "scalar", "string":
		var s sample
		err := json.Unmarshal(p.Data.Result, &s)
		fmt.Fprintln(b, s)
		return err
	case "vector", "matrix":
		var series []struct {
			Metric map[string]string
			Value  sample
			Values []sample
		}
		if err := json.Unmarshal(p.Data.Result, &series); err != nil {
			return err
		}
		for _, s := range series {
			if p.Data.ResultType == "vector" {
				fmt.Fprintf(b, "%s  %s\n", labels(s.Metric), s.Value)
				continue
			}
			fmt.Fprintln(b, labels(s.Metric))
			for _, v := range s.Values {
				fmt.Fprintf(b, "  %s\n", v)
			}
		}
		return nil
	}
	return fmt.Errorf("unknown result type %q", p.Data.ResultType)
}

func labels(metric map[string]string) string {
	var list []string
	for k, v := range metric {
		if k != "__name__" {
			list = append(list, fmt.Sprintf("%s=%q", k, v))
		}
	}
	slices.Sort(list)
	return oneLine(metric["__name__"] + "{" + strings.Join(list, ", ") + "}")
}

// answerOf turns an answer of the server into lines.
func answerOf(status int, body []byte, env tool.Env) (tool.Result, error) {
	var said promAnswer
	if err := json.Unmarshal(body, &said); err != nil || said.Status == "" {
		if status >= 500 || status == http.StatusTooManyRequests {
			return tool.Result{}, tool.Fail(tool.Transient, "try again later",
				fmt.Errorf("the Prometheus server responded with status %d", status))
		}
		return tool.Result{}, tool.Fail(tool.Permanent, "",
			fmt.Errorf("the server at INSPAN_PROMETHEUS_URL responded with status %d, and not in the format of Prometheus",
				status))
	}
	if said.Status != "success" {
		return failed("prometheus: %s", said.Error), nil
	}
	var b strings.Builder
	for _, w := range said.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", oneLine(w))
	}
	if err := said.write(&b); err != nil {
		return tool.Result{}, tool.Fail(tool.Permanent, "", fmt.Errorf("read the result of Prometheus: %w", err))
	}
	if b.Len() == 0 {
		return tool.Result{Output: "no series: the query matches nothing at that time"}, nil
	}
	return tool.Show(env, strings.TrimSuffix(b.String(), "\n")), nil
}
