package wire

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"

	"github.com/inspan/inspan/internal/llm"
)

// Opened is nil where res, with err the result of a request, is an event stream that can be read. The caller closes the
// body of res wherever there is one.
func (p Provider) Opened(ctx context.Context, res *http.Response, err error) error {
	if res == nil || res.Body == nil {
		if err == nil {
			err = ErrCut
		}
		return p.Broken(ctx, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refused := p.Check(res); refused != nil {
		return refused
	}
	if err != nil {
		return p.Broken(ctx, err)
	}
	return nil
}

// Events reads the data of server-sent events (WHATWG HTML, 9.2): comments, names and ids are left out, the lines of
// one event are joined, and an event that the stream ends in is none. The data is good until the next one. An error of
// r ends the events and comes last.
func Events(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, MaxAnswerBytes)
		var data []byte
		has := false
		for lines.Scan() { // the scanner takes the carriage return away
			line := lines.Bytes()
			if len(line) == 0 {
				if has && !yield(data, nil) {
					return
				}
				data, has = data[:0], false
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			if string(field) != "data" {
				continue
			}
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Counted is the usage of an answer: what the provider reported, or else an estimate.
func Counted(req llm.Request, a llm.Answer, reported llm.Usage) llm.Usage {
	if reported.Input <= 0 && reported.Output <= 0 {
		return llm.EstimateUsage(req, a)
	}
	reported.Input, reported.Output = max(reported.Input, 0), max(reported.Output, 0)
	reported.CachedInput = min(max(reported.CachedInput, 0), reported.Input)
	return reported
}
