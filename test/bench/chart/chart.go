// Package chart draws measurements as lines over two axes.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is a drawing of lines over two axes. It looks the same on light and dark pages: it brings its own paper.
type Chart struct {
	Title, Subtitle, XLabel, YLabel string
	// XTicks are the values that the x axis names; it is logarithmic, as is y with LogY, else y begins at 0.
	XTicks []float64
	LogY   bool
	Lines  []Line
}

// Line is one series. Its colour is its place in the palette, so that a contender has the same one in all charts.
type Line struct {
	Name   string
	Colour int
	Dashed bool
	Points [][2]float64
	// Ratios to the first line, of rounds side by side, where there are any.
	Ratios []float64
}

// palette is told apart by people who see few colours.
var palette = [...]string{"#0072B2", "#D55E00", "#7A7A7A", "#009E73", "#CC79A7", "#B8860B"}

// The paper, in pixels.
const (
	chartWidth, chartHeight    = 860.0, 470.0
	plotLeft, plotRight        = 78.0, 660.0
	plotTop, plotBottom        = 102.0, 404.0
	labelHeight                = 19.0
	chartFont                  = `font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"`
	inkColour, paleColour      = "#1F2933", "#5C6873"
	gridColour, paperColour    = "#E4E8EC", "#FFFFFF"
	maxTicksOfLinearAxis       = 6
	smallestShownOnALogScale   = 1e-3
	headroomAboveTheLargest    = 1.06
	fractionBelowTheLeastOfLog = 0.8
)

// scale maps a value to pixels.
type scale func(v float64) float64

func logScale(lo, hi, from, to float64) scale {
	a, b := math.Log(lo), math.Log(hi)
	return func(v float64) float64 { return from + (math.Log(max(v, smallestShownOnALogScale))-a)/(b-a)*(to-from) }
}

func linearScale(hi, from, to float64) scale {
	return func(v float64) float64 { return from + v/hi*(to-from) }
}

// SVG draws the chart.
func (c Chart) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="%s" %s>`+"\n",
		chartWidth, chartHeight, chartWidth, chartHeight, html.EscapeString(c.Title), chartFont)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" rx="10" fill="%s" stroke="%s"/>`+"\n", chartWidth, chartHeight,
		paperColour, gridColour)
	text(&b, 28, 38, 19, inkColour, `font-weight="600"`, c.Title)
	text(&b, 28, 60, 13, paleColour, "", c.Subtitle)
	x := logScale(c.XTicks[0], c.XTicks[len(c.XTicks)-1], plotLeft, plotRight)
	y, ticks := c.yAxis()
	for _, t := range ticks {
		fmt.Fprintf(&b, `<path d="M%g %.1fH%g" stroke="%s"/>`+"\n", plotLeft, y(t), plotRight, gridColour)
		text(&b, plotLeft-10, y(t)+4, 12, paleColour, `text-anchor="end"`, Plain(t))
	}
	for _, t := range c.XTicks {
		fmt.Fprintf(&b, `<path d="M%.1f %gv5" stroke="%s"/>`+"\n", x(t), plotBottom, paleColour)
		text(&b, x(t), plotBottom+21, 12, paleColour, `text-anchor="middle"`, Plain(t))
	}
	fmt.Fprintf(&b, `<path d="M%g %gH%g" stroke="%s"/>`+"\n", plotLeft, plotBottom, plotRight, paleColour)
	text(&b, (plotLeft+plotRight)/2, plotBottom+46, 13, inkColour, `text-anchor="middle"`, c.XLabel)
	text(&b, 28, plotTop-14, 12, inkColour, "", c.YLabel)
	places := c.labels(y)
	for i, l := range c.Lines {
		c.draw(&b, l, x, y, places[i])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c Chart) draw(b *strings.Builder, l Line, x, y scale, label float64) {
	colour, dash := palette[l.Colour%len(palette)], ""
	if l.Dashed {
		dash = ` stroke-dasharray="6 5"`
	}
	var path strings.Builder
	for i, p := range l.Points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x(p[0]), y(p[1]))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2.4" stroke-linejoin="round"%s/>`+"\n",
		path.String(), colour, dash)
	for _, p := range l.Points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.6" fill="%s" stroke="%s" stroke-width="1.2"><title>%s: %s at %s</title></circle>`+"\n",
			x(p[0]), y(p[1]), colour, paperColour, html.EscapeString(l.Name), Plain(p[1]), Plain(p[0]))
	}
	last := l.Points[len(l.Points)-1]
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" stroke-width="0.8"/>`+"\n", x(last[0])+6, y(last[1]),
		plotRight+14, label, colour)
	text(b, plotRight+19, label+4, 13, colour, `font-weight="600"`, l.Name)
}

// yAxis returns the scale and the values it names.
func (c Chart) yAxis() (scale, []float64) {
	lo, hi := math.Inf(1), 0.0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			lo, hi = min(lo, p[1]), max(hi, p[1])
		}
	}
	if !c.LogY {
		step := math.Pow(10, math.Floor(math.Log10(hi)))
		for _, f := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
			if hi/(step*f) <= maxTicksOfLinearAxis {
				step *= f
				break
			}
		}
		var ticks []float64
		for t := 0.0; t <= hi*headroomAboveTheLargest; t += step {
			ticks = append(ticks, t)
		}
		return linearScale(hi*headroomAboveTheLargest, plotBottom, plotTop), ticks
	}
	lo, hi = lo*fractionBelowTheLeastOfLog, hi*headroomAboveTheLargest
	var ticks []float64
	for decade := math.Pow(10, math.Floor(math.Log10(lo))); decade <= hi; decade *= 10 {
		for _, f := range []float64{1, 2, 5} {
			if t := decade * f; t >= lo && t <= hi {
				ticks = append(ticks, t)
			}
		}
	}
	return logScale(lo, hi, plotBottom, plotTop), ticks
}

// labels puts the names of the lines beside their ends, apart from each other.
func (c Chart) labels(y scale) []float64 {
	order := make([]int, len(c.Lines))
	places := make([]float64, len(c.Lines))
	for i, l := range c.Lines {
		order[i], places[i] = i, y(l.Points[len(l.Points)-1][1])
	}
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, places[a]-places[b])) })
	for n := 1; n < len(order); n++ {
		places[order[n]] = max(places[order[n]], places[order[n-1]]+labelHeight)
	}
	for n, limit := len(order)-1, plotBottom; n >= 0; n, limit = n-1, limit-labelHeight {
		places[order[n]] = min(places[order[n]], limit)
	}
	return places
}

func text(b *strings.Builder, x, y, size float64, colour, more, words string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="%g" fill="%s" %s>%s</text>`+"\n", x, y, size, colour, more,
		html.EscapeString(words))
}

// Plain writes a number as people do: 2,000 and 0.5.
func Plain(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	s := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Median is the middle of values, of which there is one at least.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
