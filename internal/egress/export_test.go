package egress

import (
	"bufio"
	"bytes"
	"io"
)

// Masked is the body of an answer with parts masked.
func Masked(body io.ReadCloser, parts ...string) io.Reader {
	b := &maskedBody{ReadCloser: body}
	for _, p := range parts {
		b.parts = append(b.parts, []byte(p))
	}
	return b
}

// ReadHello reads a TLS greeting and gives back all that it took.
func ReadHello(data []byte) (name string, taken []byte, err error) {
	taken, h, err := readHello(bytes.NewReader(data))
	return h.name, taken, err
}

// ReadSocks reads what a client of SOCKS5 says, and returns what it is answered.
func ReadSocks(data []byte) (token, target string, answered []byte, err error) {
	var out bytes.Buffer
	in := bufio.NewReader(bytes.NewReader(data))
	token, _, err = greetSocks(struct {
		io.Reader
		io.Writer
	}{in, &out})
	if err != nil {
		return "", "", out.Bytes(), err
	}
	t, _, err := readSocks(in)
	if err != nil {
		return token, "", out.Bytes(), err
	}
	return token, t.String(), out.Bytes(), nil
}
