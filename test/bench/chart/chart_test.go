package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestChart(t *testing.T) {
	t.Parallel()
	c := Chart{Title: "a < b", XTicks: []float64{1, 10, 100}, LogY: true, Lines: []Line{
		{Name: "one", Points: [][2]float64{{1, 10}, {100, 1000}}},
		{Name: "two", Colour: 1, Points: [][2]float64{{1, 20}, {100, 1001}}},
		{Name: "three", Colour: 2, Dashed: true, Points: [][2]float64{{1, 5}, {100, 999}}},
	}}
	t.Run("a chart is well-formed and names every line", func(t *testing.T) {
		t.Parallel()
		drawn := c.SVG()
		d := xml.NewDecoder(strings.NewReader(drawn))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range c.Lines {
			if !strings.Contains(drawn, ">"+l.Name+"<") {
				t.Errorf("line %s has no name beside it", l.Name)
			}
		}
	})
	t.Run("names of lines that end together stand apart, on the paper", func(t *testing.T) {
		t.Parallel()
		y, _ := c.yAxis()
		places := c.labels(y)
		slices.Sort(places)
		for i, p := range places {
			if p > plotBottom || i > 0 && p-places[i-1] < labelHeight-0.01 {
				t.Errorf("names at %v, want them %v apart and above %v", places, labelHeight, plotBottom)
			}
		}
	})
}

func TestMedian(t *testing.T) {
	t.Parallel()
	if got := Median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("got %v, want 5", got)
	}
	if got := Median([]float64{9, 1, 5, 7}); got != 6 {
		t.Errorf("got %v, want 6", got)
	}
}
