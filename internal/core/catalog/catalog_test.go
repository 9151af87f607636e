package catalog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/catalog"
)

func TestCatalog(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3 the model that a provider begins with has a price, a dated source and a key", func(t *testing.T) {
		t.Parallel()
		table := budget.Table(catalog.Prices())
		for _, p := range catalog.Providers() {
			price, ok := table.Find(p.Model)
			if !ok || price.Input <= 0 || price.Output <= price.Input {
				t.Errorf("%s: %+v %v", p.Model, price, ok)
			}
			source := catalog.Sources()[p.Name]
			if _, err := time.Parse(time.DateOnly, source.Day); err != nil || !strings.HasPrefix(source.Page, "https://") {
				t.Errorf("%s: %+v", p.Name, source)
			}
			if got, ok := catalog.Find(p.Model); !ok || got != p || p.Standard() == p.Variable {
				t.Errorf("%+v", got)
			}
		}
	})
	t.Run("PLUS-3 every row is a price of its own: not nothing, a hit of the cache cheaper than input, a write not", func(t *testing.T) {
		t.Parallel()
		rows := catalog.Rows()
		if got := len(catalog.Prices()); got != len(rows) {
			t.Errorf("%d prices of %d rows: a model is there twice", got, len(rows))
		}
		for _, r := range rows {
			provider, _, _ := strings.Cut(r.Model, "/")
			if catalog.Sources()[provider].Page == "" || r.Input <= 0 || r.Cached <= 0 || r.Cached >= r.Input || r.Output < r.Input || r.CacheWrite != 0 && r.CacheWrite < r.Input {
				t.Errorf("%+v", r)
			}
		}
		if p := catalog.Prices()["anthropic/claude-haiku-5-5*"]; p.Input != 100_000 || p.CacheWrite != 125_000 {
			t.Errorf("%+v", p)
		}
	})
	t.Run("PLUS-3 a dated name has the price of its family, an unknown one has none", func(t *testing.T) {
		t.Parallel()
		table := budget.Table(catalog.Prices())
		if p, ok := table.Find("anthropic/claude-sonnet-4-5-20250929"); !ok || p.Input != 3_000_000 {
			t.Errorf("%+v %v", p, ok)
		}
		for _, ref := range []string{"openai/llama3:8b", "scripted/x", "anthropic/claude-next", "gemini/gemini-9"} {
			if p, ok := table.Find(ref); ok {
				t.Errorf("%s costs %+v", ref, p)
			}
		}
	})
}
