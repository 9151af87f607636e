package e2e

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const looking = `
turns:
  - when: {turn: 1}
    calls:
      - {name: read, input: {path: shot.txt}}
  - when: {turn: 2, results: {tool: read, image: "image/*", contains: "image/png, 40x30 pixels"}}
    text: I see it.
`

func picture(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// camera gives pictures that are none, too many, and one more with its result than it says.
type camera struct{ shot []byte }

func (camera) Spec() tool.Spec {
	return tool.Spec{Name: "camera", Description: "Looks.", Input: []byte(`{"type":"object"}`), Effect: tool.Read}
}

func (c camera) Run(context.Context, tool.Call) (tool.Result, error) {
	r := tool.Result{Output: "looked", Images: []tool.Image{{MediaType: "image/png", Data: []byte("<svg/>"), Width: 10, Height: 10}}}
	for range tool.MaxImages + 1 {
		r.Images = append(r.Images, tool.Image{MediaType: "image/webp", Data: c.shot, Width: 1, Height: 1})
	}
	return r, nil
}

// choosy is a provider that refuses requests with images.
type choosy struct{ *received }

func (c choosy) Model(ref string) (llm.Model, string, error) { return c, ref, nil }

func (c choosy) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	answer, err := c.received.Ask(ctx, req, sink)
	if len(shown(req)) > 0 {
		return llm.Answer{}, &llm.Error{Class: llm.Invalid, Status: 400, Err: errors.New("this model takes no images")}
	}
	return answer, err
}

// shown are the images of all results in a request.
func shown(req llm.Request) (out []llm.Image) {
	for _, m := range req.Messages {
		for _, r := range m.Results {
			out = append(out, r.Images...)
		}
	}
	return out
}

// makes asks for one call after the other, and is done.
func makes(calls ...llm.Call) func(llm.Request) llm.Answer {
	return func(req llm.Request) llm.Answer {
		if n := req.Meta.Turn; n <= len(calls) {
			calls[n-1].ID = "c"
			return llm.Answer{Calls: calls[n-1 : n]}
		}
		return llm.Answer{Text: "done"}
	}
}

func TestImagesOfTools(t *testing.T) {
	t.Parallel()
	read := func(name string) llm.Call { return llm.Call{Name: "read", Input: []byte(`{"path":"` + name + `"}`)} }
	shot := picture(t, 40, 30)
	t.Run("PLUS-2 LOOP-16 a picture that a tool reads is stored by content and reaches the model", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.file("run/look", "shot.txt", string(shot))
		w.agent(events.Agent{Name: "looker", Tools: []string{"read"}}, looking)
		w.start()
		w.task(events.Task{ID: "look", Agent: "looker", Task: "look"})
		s := w.ended("look")
		if s.Result == nil || !s.Result.Success || s.Result.Output != "I see it." {
			t.Fatalf("got %+v\n%s", s.Result, w.story("look"))
		}
		r := s.ToolCallHistory.At(0)
		if len(r.Images) != 1 || r.Images[0].Width != 40 || r.Images[0].Height != 30 {
			t.Fatalf("got %+v", r)
		}
		if b, err := w.ports.Blobs.Get(w.ctx(), r.Images[0].Ref); err != nil || !bytes.Equal(b, shot) {
			t.Errorf("got %d bytes, %v", len(b), err)
		}
		for _, f := range w.events("look") {
			if bytes.Contains(f.Bytes, shot[:8]) || bytes.Contains(f.Bytes, []byte("iVBORw0KGgo")) {
				t.Errorf("the picture stands in an event: %.300s", f.Bytes)
			}
		}
	})
	t.Run("PLUS-2 what a tool says of its images is not believed", func(t *testing.T) {
		t.Parallel()
		h := &received{planned: makes(llm.Call{Name: "camera", Input: []byte(`{}`)})}
		w := newWorld(t, camera{shot})
		w.ports.Models = h
		w.agent(events.Agent{Name: "a", Model: "heard/x", Tools: []string{"camera"}}, "")
		w.start()
		w.task(events.Task{ID: "cam", Agent: "a", Task: "look"})
		r := w.ended("cam").ToolCallHistory.At(0)
		if len(r.Images) != tool.MaxImages-1 || r.Images[0].MediaType != "image/png" || r.Images[0].Width != 40 || !r.Success {
			t.Errorf("got %+v", r)
		}
		inOrder(t, r.Result, "looked", "Image 1 is omitted: not a png", "2 more images are omitted")
		if got := shown(h.of("cam")[1]); len(got) != tool.MaxImages-1 || !bytes.Equal(got[0].Data, shot) || got[0].Tokens != 258 {
			t.Errorf("the model was shown %d images", len(got))
		}
	})
	t.Run("PLUS-2 files that are too large, lie or are text do no harm", func(t *testing.T) {
		t.Parallel()
		h := &received{planned: makes(read("huge.png"), read("big.png"), read("liar.png"), read("shape.svg"), read("good.bin"))}
		w := newWorld(t)
		w.ports.Models = h
		liar := bytes.Clone(shot)
		copy(liar[16:24], "\x7f\xff\xff\xff\x7f\xff\xff\xff")
		w.file("run/bad", "liar.png", string(liar))
		w.file("run/bad", "shape.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
		w.file("run/bad", "good.bin", string(shot))
		for name, size := range map[string]int64{"huge.png": 100 << 20, "big.png": 5 << 20} {
			w.file("run/bad", name, string(shot))
			if err := os.Truncate(filepath.Join(w.dir, "work", "run", "bad", name), size); err != nil {
				t.Fatal(err)
			}
		}
		w.agent(events.Agent{Name: "a", Model: "heard/x", Tools: []string{"read"}}, "")
		w.start()
		w.task(events.Task{ID: "bad", Agent: "a", Task: "look"})
		s := w.ended("bad")
		for i, want := range []string{"too large", "the limit is 3750000", "damaged", "1\t<svg xmlns", "40x30"} {
			r := s.ToolCallHistory.At(i)
			if !strings.Contains(r.Result, want) || r.Success != (i > 2) || (len(r.Images) > 0) != (i == 4) {
				t.Errorf("%d: got %+v, want %q", i, r, want)
			}
		}
	})
	t.Run("PLUS-2 a model that takes no images is told in words, by its agent's switch or after its provider's refusal", func(t *testing.T) {
		t.Parallel()
		h := &received{planned: makes(read("shot.png"))}
		w := newWorld(t)
		w.ports.Models = choosy{h}
		w.file("run/off", "shot.png", string(shot))
		w.file("run/refused", "shot.png", string(shot))
		w.agent(events.Agent{Name: "off", Model: "heard/x", Tools: []string{"read"}, NoImages: true}, "")
		w.agent(events.Agent{Name: "on", Model: "heard/x", Tools: []string{"read"}}, "")
		w.start()
		w.task(events.Task{ID: "off", Agent: "off", Task: "look"})
		w.task(events.Task{ID: "refused", Agent: "on", Task: "look"})
		var counts []int
		for _, id := range []string{"off", "refused"} {
			if s := w.ended(id); !s.Result.Success || s.Result.Output != "done" {
				t.Errorf("%s: got %+v", id, s.Result)
			}
			for _, req := range h.of(id) {
				counts = append(counts, len(shown(req)))
			}
		}
		if want := []int{0, 0, 0, 1, 0}; !reflect.DeepEqual(counts, want) {
			t.Fatalf("the requests showed %v images, want %v", counts, want)
		}
		last := func(id string) string {
			all := h.of(id)
			m := all[len(all)-1].Messages
			return m[len(m)-1].Results[0].Output
		}
		inOrder(t, last("off"), "image/png, 40x30", "the model of this agent accepts no images")
		inOrder(t, last("refused"), "image/png, 40x30", "the provider refused")
	})
}
