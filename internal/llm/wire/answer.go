package wire

import (
	"context"
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

// Counted is the usage of an answer: what the provider reported, or else an estimate.
func Counted(req llm.Request, a llm.Answer, reported llm.Usage) llm.Usage {
	if reported.Input <= 0 && reported.Output <= 0 {
		return llm.EstimateUsage(req, a)
	}
	reported.Input, reported.Output = max(reported.Input, 0), max(reported.Output, 0)
	reported.CachedInput = min(max(reported.CachedInput, 0), reported.Input)
	reported.CacheWrite = min(max(reported.CacheWrite, 0), reported.Input-reported.CachedInput)
	return reported
}
