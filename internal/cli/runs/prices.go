package runs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/pkg/events"
)

// pricedModel is a line of inspan cost --prices.
type pricedModel struct {
	Model string `json:"model"`
	events.Price
	// Source is an address, or the file that a person named; Date is empty for the latter.
	Source string `json:"source"`
	Date   string `json:"date,omitempty"`
}

// showPrices prints the prices in force here.
func showPrices(a *app.App, args []string) error {
	if len(args) > 0 {
		return app.Usage("--prices is about all models: leave %s out", args[0])
	}
	file := a.Lookup("INSPAN_PRICES", "")
	own, err := agentfile.LoadPrices(file)
	if err != nil {
		return app.Usage("INSPAN_PRICES: %w", err)
	}
	table := own.Over(budget.Table(catalog.Prices()))
	all := []pricedModel{}
	for _, model := range slices.Sorted(maps.Keys(table)) {
		provider, _, _ := strings.Cut(model, "/")
		m := pricedModel{Model: model, Price: table[model], Source: catalog.Sources()[provider].Page,
			Date: catalog.Sources()[provider].Day}
		if _, ok := own[model]; ok {
			m.Source, m.Date = file, ""
		}
		m.CacheWrite = cmp.Or(m.CacheWrite, m.Input)
		all = append(all, m)
	}
	if a.JSON {
		return a.PrintJSON(all)
	}
	var rows [][]string
	for _, m := range all {
		rows = append(rows, []string{m.Model, m.Input.String(), m.Output.String(), m.Cached.String(), m.CacheWrite.String(),
			strings.TrimSpace(m.Date + " " + m.Source)})
	}
	a.Table([]string{"MODEL", ">IN", ">OUT", ">CACHED", ">CACHE WRITE", "FROM"}, rows)
	fmt.Fprintln(a.Out, a.Paint().Dim("US dollars for a million tokens. Prompts above a provider's limit for long ones cost more than is shown here."))
	return nil
}
