package tool_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

func pngOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// claim changes the size in the header of a png, with a checksum that fits.
func claim(data []byte, w, h uint32) []byte {
	out := slices.Clone(data)
	binary.BigEndian.PutUint32(out[16:], w)
	binary.BigEndian.PutUint32(out[20:], h)
	binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
	return out
}

// webp is a header with one chunk and nothing else that matters.
func webp(chunk string, body ...byte) []byte {
	out := append([]byte("RIFF\x00\x00\x00\x00WEBP"+chunk+"\x0a\x00\x00\x00"), body...)
	out = append(out, make([]byte, 40-len(out))...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

func TestReadImage(t *testing.T) {
	t.Parallel()
	var jpg, moving bytes.Buffer
	if err := jpeg.Encode(&jpg, image.NewGray(image.Rect(0, 0, 9, 4)), nil); err != nil {
		t.Fatal(err)
	}
	if err := gif.Encode(&moving, image.NewGray(image.Rect(0, 0, 3, 2)), nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data  []byte
		media string
		w, h  int
	}{
		"png":           {pngOf(t, 20, 10), "image/png", 20, 10},
		"png, widest":   {pngOf(t, tool.MaxImageSide, 2), "image/png", tool.MaxImageSide, 2},
		"jpeg":          {jpg.Bytes(), "image/jpeg", 9, 4},
		"gif":           {moving.Bytes(), "image/gif", 3, 2},
		"webp extended": {webp("VP8X", 0, 0, 0, 0, 0x0f, 0x01, 0, 0x07, 0, 0), "image/webp", 272, 8},
		"webp lossless": {webp("VP8L", 0x2f, 0x63, 0x40, 0x0c, 0), "image/webp", 100, 50},
		"webp lossy":    {webp("VP8 ", 0, 0, 0, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0), "image/webp", 320, 240},
	} {
		t.Run("PLUS-2 a picture is read by its bytes: "+name, func(t *testing.T) {
			t.Parallel()
			i, err := tool.ReadImage(c.data)
			if err != nil || i.MediaType != c.media || i.Width != c.w || i.Height != c.h || !bytes.Equal(i.Data, c.data) || tool.MediaTypeOf(c.data) != c.media {
				t.Errorf("got %s, %v", i, err)
			}
		})
	}
	small := pngOf(t, 20, 10)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"too many bytes":             {append(slices.Clone(small), make([]byte, tool.MaxImageBytes)...), "the limit is 3750000"},
		"too wide":                   {pngOf(t, tool.MaxImageSide+1, 2), "8001x2 pixels, the limit is 8000 on a side"},
		"too many pixels":            {pngOf(t, 4001, 4000), "16000000 in all"},
		"a header of a huge picture": {claim(small, 1<<30, 1<<30), "the image/png"},
		"a header of a larger one":   {claim(small, 3000, 3000), "damaged"},
		"a header of a smaller one":  {claim(small, 2, 2), "damaged"},
		"a header of nothing":        {claim(small, 0, 10), "damaged"},
		"half of a png":              {small[:len(small)/2], "damaged"},
		"a jpeg's first bytes":       {[]byte("\xff\xd8\xff\xe0"), "damaged"},
		"half of a webp":             {webp("VP8X", 0, 0, 0, 0, 0x0f, 0x01, 0, 0x07, 0, 0)[:32], "states 40 bytes, it has 32"},
		"a webp of another kind":     {webp("ABCD"), "unknown type"},
	} {
		t.Run("PLUS-2 what cannot be shown is refused with its reason: "+name, func(t *testing.T) {
			t.Parallel()
			if i, err := tool.ReadImage(c.data); err == nil || errors.Is(err, tool.ErrNoImage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s, %v, want %q", i, err, c.want)
			}
		})
	}
	t.Run("PLUS-2 other files are no pictures, whatever they look like", func(t *testing.T) {
		t.Parallel()
		for _, data := range []string{"", "x", `<svg xmlns="http://www.w3.org/2000/svg"/>`, "GIF8 is how it begins", "RIFF\x00\x00\x00\x00WAVE", "\x89PNG"} {
			if _, err := tool.ReadImage([]byte(data)); !errors.Is(err, tool.ErrNoImage) || tool.MediaTypeOf([]byte(data)) != "" {
				t.Errorf("%q: got %v", data, err)
			}
		}
	})
}

func FuzzReadImage(f *testing.F) {
	f.Add(pngOf(f, 2, 2))
	f.Add(webp("VP8L", 0x2f, 1, 2, 3, 4))
	f.Add([]byte("GIF89a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := tool.ReadImage(data)
		if (err == nil) != (i.MediaType != "") || i.Width < 0 || i.Width > tool.MaxImageSide || i.Height > tool.MaxImageSide {
			t.Errorf("%v, %v", i, err)
		}
	})
}
