package wasmbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

func echo(_ context.Context, c *call) error {
	args, end := c.Args[1:], "\n"
	if len(args) > 0 && args[0] == "-n" {
		args, end = args[1:], ""
	}
	_, err := c.out.WriteString(strings.Join(args, " ") + end)
	return err
}

func basename(_ context.Context, c *call) error {
	if len(c.Args) < 2 {
		return misused("wants a path")
	}
	name := path.Base(c.Args[1])
	if len(c.Args) > 2 && name != c.Args[2] {
		name = strings.TrimSuffix(name, c.Args[2])
	}
	return c.line(name)
}

func dirname(_ context.Context, c *call) error {
	for _, name := range c.Args[1:] {
		if err := c.line(path.Dir(strings.TrimRight(name, "/"))); err != nil {
			return err
		}
	}
	return nil
}

func pwd(_ context.Context, c *call) error { return c.line(c.Dir) }

func date(_ context.Context, c *call) error {
	now, form := time.Now().UTC(), "%a %b %e %H:%M:%S UTC %Y"
	for _, arg := range c.Args[1:] {
		switch {
		case strings.HasPrefix(arg, "+"):
			form = arg[1:]
		case arg != "-u":
			return misused("%s is not known", arg)
		}
	}
	return c.line(strings.NewReplacer("%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"), "%e",
		now.Format("_2"),
		"%H", now.Format("15"), "%M", now.Format("04"), "%S", now.Format("05"), "%s", strconv.FormatInt(now.Unix(), 10),
		"%F", now.Format("2006-01-02"), "%T", now.Format("15:04:05"), "%a", now.Format("Mon"), "%b", now.Format("Jan"),
		"%N", now.Format("000000000"), "%Z", "UTC", "%%", "%").Replace(form))
}

// env shows the environment, or runs a program with a changed one.
func env(ctx context.Context, c *call) error {
	next := c.Call
	args := c.Args[1:]
	for ; len(args) > 0; args = args[1:] {
		switch {
		case args[0] == "-i" || args[0] == "-":
			next.Env = nil
			continue
		case strings.Contains(args[0], "="):
			next.Env = append(slices.Clone(next.Env), args[0])
			continue
		}
		break
	}
	if len(args) > 0 {
		next.Args = args
		return code(run(ctx, next))
	}
	seen := map[string]bool{}
	var list []string
	for _, entry := range slices.Backward(next.Env) {
		if name, _, _ := strings.Cut(entry, "="); !seen[name] {
			seen[name] = true
			list = append(list, entry)
		}
	}
	for _, entry := range slices.Backward(list) {
		if err := c.line(entry); err != nil {
			return err
		}
	}
	return nil
}

func code(n int) error {
	if n == 0 {
		return nil
	}
	return status(n)
}

func seq(ctx context.Context, c *call) error {
	numbers := []float64{}
	for _, arg := range c.Args[1:] {
		n, err := strconv.ParseFloat(arg, 64)
		if err != nil {
			return misused("%q is no number", arg)
		}
		numbers = append(numbers, n)
	}
	first, step, last := 1.0, 1.0, 0.0
	switch len(numbers) {
	case 1:
		last = numbers[0]
	case 2:
		first, last = numbers[0], numbers[1]
	case 3:
		first, step, last = numbers[0], numbers[1], numbers[2]
	default:
		return misused("wants one to three numbers")
	}
	if step == 0 {
		return misused("a step of 0 never ends")
	}
	for i := 0; ; i++ {
		n := first + float64(i)*step
		if step > 0 && n > last || step < 0 && n < last {
			return nil
		}
		if err := cmp.Or(ctx.Err(), c.line(strconv.FormatFloat(n, 'f', -1, 64))); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, c *call) error {
	var total time.Duration
	for _, arg := range c.Args[1:] {
		n, err := strconv.ParseFloat(strings.TrimRight(arg, "smhd"), 64)
		if err != nil || n < 0 {
			return misused("%q is no time", arg)
		}
		unit := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[arg[len(arg)-1]]
		total += time.Duration(n * float64(max(unit, time.Second)))
	}
	timer := time.NewTimer(total)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func sha256sum(_ context.Context, c *call) error {
	_, names, err := c.options("")
	if err != nil {
		return err
	}
	return c.each(names, func(name string, r io.Reader) error {
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return err
		}
		return c.line(fmt.Sprintf("%x  %s", sum.Sum(nil), name))
	})
}

func which(_ context.Context, c *call) error {
	for _, name := range c.Args[1:] {
		if _, err := os.Stat("/bin/" + name); err != nil && commands()[name] == nil {
			c.failed = true
			continue
		}
		if err := c.line("/bin/" + name); err != nil {
			return err
		}
	}
	return nil
}

// xargs runs a program with arguments that it reads.
func xargs(ctx context.Context, c *call) error {
	args := c.Args[1:]
	o := options{given: map[byte]int{}, value: map[byte]string{}}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		letter := strings.TrimPrefix(args[0], "-")
		value := ""
		if letter == "" || !strings.Contains("0rnIL", letter[:1]) {
			return misused("%s is not known", args[0])
		}
		args = args[1:]
		if strings.Contains("nIL", letter[:1]) {
			if value = letter[1:]; value == "" && len(args) > 0 {
				value, args = args[0], args[1:]
			}
		}
		o.given[letter[0]]++
		o.value[letter[0]] = value
	}
	if len(args) == 0 {
		args = []string{"echo"}
	}
	data, err := io.ReadAll(c.In)
	if err != nil {
		return err
	}
	var words []string
	switch {
	case o.has('0'):
		words = slices.DeleteFunc(strings.Split(string(data), "\x00"), func(w string) bool { return w == "" })
	case o.has('I'), o.has('L'):
		words = slices.DeleteFunc(strings.Split(string(data), "\n"), func(w string) bool { return w == "" })
	default:
		words = strings.Fields(string(data))
	}
	most := max(len(words), 1)
	for _, letter := range []byte{'n', 'L'} {
		if o.has(letter) {
			if most, err = strconv.Atoi(o.value[letter]); err != nil || most < 1 {
				return misused("%q is no number", o.value[letter])
			}
		}
	}
	if o.has('I') {
		most = 1
	}
	if len(words) == 0 && (o.has('r') || o.has('I')) {
		return nil
	}
	for first := true; first || len(words) > 0; first = false {
		part := words[:min(most, len(words))]
		words = words[len(part):]
		next := c.Call
		next.In = bytes.NewReader(nil)
		next.Args = append(slices.Clone(args), part...)
		if o.has('I') {
			next.Args = nil
			for _, arg := range args {
				next.Args = append(next.Args, strings.ReplaceAll(arg, o.value['I'], part[0]))
			}
		}
		if got := run(ctx, next); got != 0 {
			c.failed = true
		}
	}
	if c.failed {
		return status(123)
	}
	return nil
}

// sortLines sorts.
func sortLines(ctx context.Context, c *call) error {
	o, names, err := c.options("rnufk:t:bsho:", "reverse=r", "numeric-sort=n", "unique=u", "ignore-case=f", "key=k",
		"field-separator=t", "stable=s")
	if err != nil {
		return err
	}
	var all []string
	err = c.each(names, func(_ string, r io.Reader) error {
		return lines(ctx, r, func(line string) error { all = append(all, line); return nil })
	})
	if err != nil {
		return err
	}
	compare, err := order(o)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, compare)
	if o.has('u') {
		all = slices.CompactFunc(all, func(a, b string) bool { return compare(a, b) == 0 })
	}
	for _, line := range all {
		if err := c.line(line); err != nil {
			return err
		}
	}
	return nil
}

// order compares lines as the options of sort ask for.
func order(o options) (func(a, b string) int, error) {
	numeric, reverse := o.has('n') || o.has('h'), o.has('r')
	from, to := 0, 0
	if key, ok := o.value['k']; ok {
		numeric = numeric || strings.Contains(key, "n")
		reverse = reverse || strings.Contains(key, "r")
		begin, end, more := strings.Cut(strings.Trim(key, "nrbf"), ",")
		var err error
		if from, err = strconv.Atoi(strings.TrimRight(begin, "nrbf")); err == nil && more {
			to, err = strconv.Atoi(end)
		}
		if err != nil || from < 1 {
			return nil, misused("%q is no key", key)
		}
	}
	part := func(line string) string {
		if from == 0 {
			return line
		}
		fields := strings.Fields(line)
		if apart, ok := o.value['t']; ok {
			fields = strings.Split(line, apart)
		}
		end := len(fields)
		if to > 0 {
			end = min(to, end)
		}
		if from > end {
			return ""
		}
		return strings.Join(fields[from-1:end], "\x00")
	}
	return func(a, b string) int {
		x, y := part(a), part(b)
		if o.has('f') {
			x, y = strings.ToLower(x), strings.ToLower(y)
		}
		got := 0
		if numeric {
			got = cmp.Compare(number(x), number(y))
		}
		if got == 0 && !(numeric && o.has('u')) {
			got = cmp.Compare(x, y)
		}
		if got == 0 && !o.has('u') && !o.has('s') {
			got = cmp.Compare(a, b)
		}
		if reverse {
			got = -got
		}
		return got
	}, nil
}

// number is what a text begins with.
func number(text string) float64 {
	text = strings.TrimSpace(text)
	end := 0
	for end < len(text) && strings.ContainsRune("+-.0123456789", rune(text[end])) {
		end++
	}
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil {
		return 0
	}
	unit := map[string]float64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
	if end < len(text) && unit[text[end:end+1]] > 0 {
		n *= unit[text[end:end+1]]
	}
	return n
}
