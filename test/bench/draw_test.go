package main

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
	c := chart{title: "a < b", xTicks: []float64{1, 10, 100}, logY: true, lines: []line{
		{name: "one", points: [][2]float64{{1, 10}, {100, 1000}}},
		{name: "two", colour: 1, points: [][2]float64{{1, 20}, {100, 1001}}},
		{name: "three", colour: 2, dashed: true, points: [][2]float64{{1, 5}, {100, 999}}},
	}}
	t.Run("a chart is well-formed and names every line", func(t *testing.T) {
		t.Parallel()
		drawn := c.svg()
		d := xml.NewDecoder(strings.NewReader(drawn))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range c.lines {
			if !strings.Contains(drawn, ">"+l.name+"<") {
				t.Errorf("line %s has no name beside it", l.name)
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
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("got %v, want 5", got)
	}
	if got := median([]float64{9, 1, 5, 7}); got != 6 {
		t.Errorf("got %v, want 6", got)
	}
}
