package invoice

import "testing"

func TestLineTotal(t *testing.T) {
	cases := []struct {
		name string
		line Line
		want int
	}{
		{"no discount", Line{Quantity: 3, UnitPrice: 250}, 750},
		{"even discount", Line{Quantity: 2, UnitPrice: 500, Discount: 10}, 900},
		{"half a cent is rounded up", Line{Quantity: 1, UnitPrice: 5, Discount: 50}, 3},
		{"less than half a cent is rounded down", Line{Quantity: 1, UnitPrice: 333, Discount: 20}, 266},
		{"free", Line{Quantity: 7, UnitPrice: 100, Discount: 100}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.line.Total(); got != c.want {
				t.Errorf("total of %+v: got %d cents, want %d", c.line, got, c.want)
			}
		})
	}
}

func TestTotal(t *testing.T) {
	lines := []Line{{Quantity: 1, UnitPrice: 333, Discount: 20}, {Quantity: 2, UnitPrice: 100}}
	if got, want := Total(lines), 466; got != want {
		t.Errorf("got %d cents, want %d", got, want)
	}
}

func TestCheapest(t *testing.T) {
	if _, ok := Cheapest(nil); ok {
		t.Error("there is no cheapest line of none")
	}
	lines := []Line{{Name: "pen", Quantity: 1, UnitPrice: 300}, {Name: "ink", Quantity: 1, UnitPrice: 900, Discount: 90}}
	if got, _ := Cheapest(lines); got.Name != "ink" {
		t.Errorf("got %q, want ink", got.Name)
	}
}
