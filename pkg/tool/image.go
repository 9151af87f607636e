package tool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
)

// Limits of a picture: what every provider takes without making it smaller first.
const (
	// MaxImageBytes is the most bytes of a file: in base64 they are the 5 MB that the strictest provider takes.
	MaxImageBytes = 3_750_000
	// MaxImageSide is the most pixels of width or height, MaxImagePixels of both together.
	MaxImageSide   = 8000
	MaxImagePixels = 16_000_000
	// MaxImages is how many pictures one result has.
	MaxImages = 8
)

// ErrNoImage means that bytes are no picture of a kind that models are shown.
var ErrNoImage = errors.New("not a png, jpeg, gif or webp image")

// Image is a picture in a result.
type Image struct {
	// MediaType is image/png, image/jpeg, image/gif or image/webp; Data the bytes of the file.
	MediaType string
	Data      []byte
	// Width and Height are in pixels.
	Width, Height int
}

// String tells of the picture without showing it.
func (i Image) String() string {
	return fmt.Sprintf("%s, %dx%d pixels, %d bytes", i.MediaType, i.Width, i.Height, len(i.Data))
}

// forms are the kinds of pictures by how their bytes begin, with what reads their size.
var forms = []struct {
	media string
	is    func([]byte) bool
	size  func([]byte) (image.Config, error)
}{
	{"image/png", begins("\x89PNG\r\n\x1a\n"), func(b []byte) (image.Config,
		error) {
		return png.DecodeConfig(bytes.NewReader(b))
	}},
	{"image/jpeg", begins("\xff\xd8\xff"), func(b []byte) (image.Config,
		error) {
		return jpeg.DecodeConfig(bytes.NewReader(b))
	}},
	{"image/gif", func(b []byte) bool { return len(b) >= 6 && (string(b[:6]) == "GIF87a" || string(b[:6]) == "GIF89a") },
		func(b []byte) (image.Config, error) { return gif.DecodeConfig(bytes.NewReader(b)) }},
	{"image/webp", func(b []byte) bool { return len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" },
		webpSize},
}

func begins(magic string) func([]byte) bool {
	return func(b []byte) bool { return bytes.HasPrefix(b, []byte(magic)) }
}

// MediaTypeOf tells by the first 12 bytes which kind of picture a file is; "" where it is none that models are shown.
func MediaTypeOf(data []byte) string {
	for _, f := range forms {
		if f.is(data) {
			return f.media
		}
	}
	return ""
}

// ReadImage reads a picture by its bytes, whatever it is called. It returns ErrNoImage where they are none, and another
// error where the picture is damaged or beyond a limit. Nothing is made of the pixels before their number is known to
// be within MaxImagePixels; those of a png are then read to their end, for its header may lie.
func ReadImage(data []byte) (Image, error) {
	for _, f := range forms {
		if !f.is(data) {
			continue
		}
		if len(data) > MaxImageBytes {
			return Image{}, fmt.Errorf("the %s has %d bytes, the limit is %d", f.media, len(data), MaxImageBytes)
		}
		size, err := f.size(data)
		if err != nil {
			return Image{}, fmt.Errorf("the %s is damaged: %w", f.media, err)
		}
		w, h := size.Width, size.Height
		switch {
		case w <= 0 || h <= 0:
			return Image{}, fmt.Errorf("the %s is damaged: it is %dx%d pixels large", f.media, w, h)
		case w > MaxImageSide || h > MaxImageSide || w*h > MaxImagePixels:
			return Image{}, fmt.Errorf("the %s has %dx%d pixels, the limit is %d on a side and %d in all", f.media, w, h,
				MaxImageSide, MaxImagePixels)
		}
		if f.media == "image/png" {
			if _, err := png.Decode(bytes.NewReader(data)); err != nil {
				return Image{}, fmt.Errorf("the %s is damaged: %w", f.media, err)
			}
		}
		return Image{MediaType: f.media, Data: data, Width: w, Height: h}, nil
	}
	return Image{}, ErrNoImage
}

// webpSize reads the size of a WebP file from its first chunk (RFC 9649, sections 2.5 to 2.7).
func webpSize(b []byte) (image.Config, error) {
	if len(b) < 30 {
		return image.Config{}, errors.New("it ends in its header")
	}
	if size := binary.LittleEndian.Uint32(b[4:]); uint64(size)+8 > uint64(len(b)) {
		return image.Config{}, fmt.Errorf("its header states %d bytes, it has %d", uint64(size)+8, len(b))
	}
	switch chunk := b[20:]; string(b[12:16]) {
	case "VP8X":
		return image.Config{Width: 1 + uint24(chunk[4:]), Height: 1 + uint24(chunk[7:])}, nil
	case "VP8L":
		if bits := binary.LittleEndian.Uint32(chunk[1:]); chunk[0] == 0x2f {
			return image.Config{Width: 1 + int(bits&0x3fff), Height: 1 + int(bits>>14&0x3fff)}, nil
		}
	case "VP8 ":
		if string(chunk[3:6]) == "\x9d\x01\x2a" {
			return image.Config{Width: int(binary.LittleEndian.Uint16(chunk[6:]) & 0x3fff),
				Height: int(binary.LittleEndian.Uint16(chunk[8:]) & 0x3fff)}, nil
		}
	}
	return image.Config{}, errors.New("its first chunk has an unknown type")
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
