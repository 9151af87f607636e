package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Confirm asks a person; anything but y is no, and the error then says what was left undone, which refused names.
func (a *App) Confirm(question, refused string) error {
	fmt.Fprintf(a.Err, "\n%s [y/N] ", question)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if strings.ToLower(strings.TrimSpace(line)) == "y" {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(Exit(ExitFailed, errors.New(refused)), err)
}
