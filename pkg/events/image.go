package events

import "fmt"

// Image is a picture that is stored as an object.
type Image struct {
	Ref Ref `json:"ref"`
	// MediaType is image/png, image/jpeg, image/gif or image/webp; Width and Height are in pixels.
	MediaType string `json:"media_type"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
}

// String tells of the picture without showing it.
func (i Image) String() string {
	return fmt.Sprintf("%s, %dx%d pixels, %d bytes", i.MediaType, i.Width, i.Height, i.Ref.Size)
}
