// Package invoice adds up invoices in whole cents.
package invoice

// Line is one position of an invoice.
type Line struct {
	Name     string
	Quantity int
	// UnitPrice in cents.
	UnitPrice int
	// Discount in percent, 0 to 100.
	Discount int
}

// Total returns the sum of a line in cents: quantity times price, less the discount, rounded half up.
func (l Line) Total() int {
	gross := l.Quantity * l.UnitPrice
	return gross - gross*l.Discount/100
}

// Total returns the sum of all lines in cents.
func Total(lines []Line) int {
	sum := 0
	for _, l := range lines {
		sum += l.Total()
	}
	return sum
}

// Cheapest returns the line with the smallest total; ok is false where there are no lines.
func Cheapest(lines []Line) (cheapest Line, ok bool) {
	for _, l := range lines {
		if !ok || l.Total() < cheapest.Total() {
			cheapest, ok = l, true
		}
	}
	return cheapest, ok
}
