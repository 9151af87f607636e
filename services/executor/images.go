package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// images fetches the pictures of a result.
func (r *Role) images(ctx context.Context, call string, all []events.Image) ([]llm.Image, error) {
	var out []llm.Image
	for _, i := range all {
		b, err := r.cfg.Blobs.Get(ctx, i.Ref)
		if err != nil {
			return nil, fmt.Errorf("image of call %s: %w", call, err)
		}
		out = append(out, llm.Image{MediaType: i.MediaType, Data: b, Tokens: prompt.ImageTokens(i)})
	}
	return out, nil
}

// askShown asks with the images of the request, and once more without them where the provider refuses it: the model may
// take none, or the provider may find one of them damaged. A refusal that does not come from the images is told as it
// was.
func askShown(ctx context.Context, model llm.Model, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	answer, err := model.Ask(ctx, req, sink)
	e, refused := errors.AsType[*llm.Error](err)
	if !refused || e.Class != llm.Invalid {
		return answer, err
	}
	without, had := blind(req)
	if !had {
		return answer, err
	}
	if again, second := model.Ask(ctx, without, sink); second == nil {
		return again, nil
	}
	return answer, err
}

// blind is a request with words in the place of the images of its results; had tells whether there were any. What it
// was made of stays as it is.
func blind(req llm.Request) (out llm.Request, had bool) {
	out = req
	out.Messages = append([]llm.Message(nil), req.Messages...)
	for i := range out.Messages {
		results := append([]llm.Result(nil), out.Messages[i].Results...)
		for j := range results {
			if n := len(results[j].Images); n > 0 {
				had = true
				results[j].Images = nil
				results[j].Output += fmt.Sprintf("\n(%d of the images of this result are not shown: the provider refused the request with them.)", n)
			}
		}
		out.Messages[i].Results = results
	}
	return out, had
}
