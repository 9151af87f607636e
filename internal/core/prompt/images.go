package prompt

import (
	"fmt"
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// Limits of the images of one request: what every provider takes.
const (
	// MaxShown is how many images a conversation shows, MaxShownBytes how many bytes their files have together.
	MaxShown      = 20
	MaxShownBytes = 12_000_000
)

// Bounds of the tokens of an image: the least that any provider counts, and the most that those count who make large
// images smaller.
const (
	minImage = 258
	maxImage = 1600
)

// ImageTokens estimates what an image takes of the context window: a token for each 750 pixels, as Anthropic counts
// them, within what the other providers count for very small and for large ones.
func ImageTokens(i events.Image) int {
	if i.Width <= 0 || i.Height <= 0 || i.Width > maxImage*750/i.Height {
		return maxImage
	}
	return min(maxImage, max(minImage, i.Width*i.Height/750))
}

func imageTokens(r Result) (n int) {
	for _, i := range r.Images {
		n += ImageTokens(i)
	}
	return n
}

// hide takes an image out of a result, and says so in its text.
func (r *Result) hide(at int, why string) {
	r.Output += fmt.Sprintf("\n(An image is not shown here: %s. It is %s.)", why, r.Images[at])
	r.Images = slices.Delete(slices.Clone(r.Images), at, at+1)
}

// Hide takes all images out of a result, and says so in its text.
func (r *Result) Hide(why string) {
	for len(r.Images) > 0 {
		r.hide(0, why)
	}
}

// limitImages leaves the newest images where they are too many for one request. Then all but half of the limit are
// taken out at once, so that the prompts until then begin alike and the provider's cache holds.
func limitImages(exchanges []Exchange) {
	type place struct {
		result *Result
		bytes  int64
	}
	var shown []place
	var size int64
	for _, e := range exchanges {
		for i := range e.Results {
			r := &e.Results[i]
			for _, image := range r.Images {
				shown, size = append(shown, place{r, image.Ref.Size}), size+image.Ref.Size
				if len(shown) <= MaxShown && size <= MaxShownBytes {
					continue
				}
				for len(shown) > 1 && (len(shown) > MaxShown/2 || size > MaxShownBytes/2) {
					size -= shown[0].bytes
					shown[0].result.hide(0, "newer images replaced it; call the tool again to see it")
					shown = shown[1:]
				}
			}
		}
	}
}

// cropImages takes images out of the results of one turn, oldest first, until they take at most so many tokens.
func cropImages(results []Result, most int) {
	n := 0
	for _, r := range results {
		n += imageTokens(r)
	}
	for i := range results {
		for r := &results[i]; n > most && len(r.Images) > 0; {
			n -= ImageTokens(r.Images[0])
			r.hide(0, "the context window has no room for it; make a smaller copy and read that")
		}
	}
}
