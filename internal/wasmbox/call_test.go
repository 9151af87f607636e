package wasmbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/wasmbox"
	"github.com/inspan/inspan/internal/wasmbox/js"
)

// at runs a program in a directory.
func at(t *testing.T, dir, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var o, e bytes.Buffer
	code = wasmbox.Main(ctx, wasmbox.Call{Args: args, In: strings.NewReader(in), Out: &o, Err: &e, Dir: dir,
		Env: []string{"HOME=/home/x", "PATH=/bin"}, Host: wasmbox.System{}})
	return o.String(), e.String(), code
}

// texts are shell texts and what they say; each runs in a directory with the files of place.
var texts = map[string]string{
	// Texts.
	`cat a.txt`:                         "one\ntwo\nthree\n",
	`cat -n b/two`:                      "     1\t2\n",
	`cat a.txt - < b/two`:               "one\ntwo\nthree\n2\n",
	`printf 'no end' | cat | head -n 3`: "no end",
	`head -n 1 a.txt; head -2 a.txt; head -c 4 a.txt`:                                                          "one\none\ntwo\none\n",
	`tail -n 1 a.txt; tail -n +2 a.txt; tail -c 4 a.txt`:                                                       "three\ntwo\nthree\nree\n",
	`wc -l < a.txt; wc a.txt; printf 'é x' | wc -m`:                                                            "3\n3 3 14 a.txt\n3\n",
	`sort a.txt; sort -r a.txt | head -1`:                                                                      "one\nthree\ntwo\ntwo\n",
	`printf '10 x\n9 y\n10 a\n' | sort -n`:                                                                     "9 y\n10 a\n10 x\n",
	`printf 'b:2\na:10\nc:1\n' | sort -t: -k2,2n`:                                                              "c:1\nb:2\na:10\n",
	`printf 'b\na\nb\n' | sort -u; printf 'B\na\n' | sort -f`:                                                  "a\nb\na\nB\n",
	`printf 'a\na\nb\n' | uniq -c; printf 'a\na\nb\n' | uniq -d`:                                               "      2 a\n      1 b\na\n",
	`echo a:b:c | cut -d: -f2-; echo abc | cut -c1,3`:                                                          "b:c\nac\n",
	`echo hello | tr a-y b-z; echo "a  b" | tr -s ' '; echo a1b2 | tr -d '[:digit:]'; echo ab | tr -c 'a\n' x`: "ifmmp\na b\nab\nax\n",
	`echo x | tee t1 t2 | cat; cat t1 t2; echo y | tee -a t1 >/dev/null; cat t1`:                               "x\nx\nx\nx\ny\n",
	`sha256sum < /dev/null`:                                                                                    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  -\n",
	`seq 3; seq 2 4 | tr '\n' ' '; seq 3 -1 2`:                                                                 "1\n2\n3\n2 3 4 3\n2\n",
	// Search.
	`grep o a.txt; grep -c o a.txt; grep -n two a.txt; grep -v o a.txt; grep -q one a.txt && echo yes; grep zzz a.txt || echo no`:                "one\ntwo\n2\n2:two\nthree\nyes\nno\n",
	`grep -rn 2 b; grep -rl o . ; grep -ri TWO --include='*.txt' .`:                                                                              "b/two:1:2\na.txt\na.txt:two\n",
	`grep -E '^(one|two)$' a.txt; grep '^\(one\|thr.*\)$' a.txt; grep -F . a.txt; grep -o 'e*' a.txt; grep -w on a.txt; echo 'a+b' | grep 'a+b'`: "one\ntwo\none\nthree\ne\nee\na+b\n",
	`grep -B1 -A1 two a.txt; grep -m1 o a.txt`:                                                                                                   "one\ntwo\nthree\none\n",
	`find . -type f | sort; find b -name 't*'; find . -maxdepth 1 -type d; find . -not -name '*.txt' -type f`:                                    "./a.txt\n./b/two\nb/two\n.\n./b\n./b/two\n",
	`find . -name two -exec cat {} \;; find . -type f -print0 | xargs -0 -n1 echo got | sort; touch e; find . -empty -type f -delete; ls`:        "2\ngot ./a.txt\ngot ./b/two\na.txt\nb\n",
	// Files.
	`mkdir -p x/y; touch x/y/z; ls x; ls -R x; rmdir x 2>&1 || echo full; rm -r x; ls`:                                                     "y\nx:\ny\n\nx/y:\nz\nrmdir: x: directory not empty\nfull\na.txt\nb\n",
	`cp a.txt c; cp -r b d; mv c e; ls; cat e d/two; cp b f 2>&1`:                                                                          "a.txt\nb\nd\ne\none\ntwo\nthree\n2\ncp: b is a directory: -r copies it\n",
	`mv a.txt b; ls b; cp b/a.txt b/two . ; ls`:                                                                                            "a.txt\ntwo\na.txt\nb\ntwo\n",
	`ln -s a.txt l; readlink l; cat l; ln a.txt h; echo x > h; cat a.txt; rm l h; ls`:                                                      "a.txt\none\ntwo\nthree\nx\na.txt\nb\n",
	`ls -A none 2>&1; cat none 2>&1; rm none 2>&1; rm -f none; echo $?`:                                                                    "ls: none: no such file or directory\ncat: none: no such file or directory\nrm: none: no such file or directory\n0\n",
	`chmod 600 a.txt; ls -l a.txt | cut -c1-10; chmod u+x,go+r a.txt; ls -l a.txt | cut -c1-10; chmod a=r a.txt; ls -l a.txt | cut -c1-10`: "-rw-------\n-rwxr--r--\n-r--r--r--\n",
	`echo "echo ran \$1" > s; ./s 2>&1; chmod +x s; ./s x; printf '#!/bin/sh\nexit 3' > s; ./s; echo $?`:                                   "./s: permission denied: it is not executable, chmod +x makes it so\nran x\n3\n",
	`cp a.txt a.txt 2>&1; cp -r b b/in 2>&1; rm -r . 2>&1; ls`:                                                                             "cp: a.txt and a.txt are the same file\ncp: b cannot be copied into itself\nrm: . is the directory to work in\na.txt\nb\n",
	`cd b; pwd | xargs basename; ls; cat ../a.txt | head -1; basename /x/y.z .z; dirname /x/y`:                                             "b\ntwo\none\ny\n/x\n",
	// sed.
	`sed -n 2p a.txt; sed 2d a.txt; sed 's/o/0/;s/t\(.\)/\1T/' a.txt`:                                             "two\none\nthree\n0ne\nwT0\nhTree\n",
	`sed -n '/two/,$p' a.txt; sed -E 's/(.)(.)/\2\1/g' a.txt; sed '1,2!s/e/E/g' a.txt`:                            "two\nthree\nnoe\nwto\nhtere\none\ntwo\nthrEE\n",
	`sed -i 's/one/1/' a.txt; cat a.txt; sed -n '$=' a.txt; sed 1q a.txt; sed 'a x' b/two; sed 's#2#a/b&#' b/two`: "1\ntwo\nthree\n3\n1\n2\nx\na/b2\n",
	// The shell.
	`x=$(echo hi | tr h H); echo "$x"; for i in 1 2; do echo $i; done; f() { echo f$1; }; f 3; [ -f a.txt ] && echo there; [ -x a.txt ] || echo plain`: "Hi\n1\n2\nf3\nthere\nplain\n",
	`cat <<X
in $((1+1))
X
cat <<<word; echo a; (exit 4); echo $?; set -o pipefail; false | true; echo $?`: "in 2\nword\na\n4\n1\n",
	`seq 1000000 | head -n 2; echo "$?"`:                                                                               "1\n2\n0\n",
	`(sleep 0.01; echo late) & echo now; wait; echo end`:                                                               "now\nlate\nend\n",
	`trap 'echo bye' EXIT; echo hi; exit 0`:                                                                            "hi\nbye\n",
	`env | grep HOME; A=1 env | grep ^A; env -i B=2 env; env C=3 sh -c 'echo $C'`:                                      "HOME=/home/x\nA=1\nB=2\n3\n",
	`echo err >&2 2>/dev/null; echo out >/dev/null; true && ! false && echo ok`:                                        "ok\n",
	`/bin/echo path; which ls; which no-such || echo none; echo a b c | xargs -n2 echo; echo x | xargs -I% echo got %`: "path\n/bin/ls\nnone\na b\nc\ngot x\n",
	`ls --what 2>&1; head -z 2>&1; echo $?; date +%Y | grep -c '^20'; sleep x 2>&1`:                                    "ls: option --what is not known\nhead: option -z is not known\n2\n1\nsleep: \"x\" is no time\n",
	`no-such 2>&1 | head -c 18; echo; no-such 2>/dev/null; echo $?`:                                                    "no-such: not found\n127\n",
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	for text, want := range texts {
		t.Run("SBX-8 "+strings.ReplaceAll(text, "\n", " "), func(t *testing.T) {
			t.Parallel()
			dir := place(t)
			got, errs, _ := at(t, dir, "", "sh", "-c", text)
			if got != want {
				t.Errorf("got %q, want %q; it cried %q", got, want, errs)
			}
		})
	}
}

func place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "one\ntwo\nthree\n", "b/two": "2\n"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMainCalls(t *testing.T) {
	t.Parallel()
	t.Run("SBX-8 a name that is no program's takes the first argument for one", func(t *testing.T) {
		t.Parallel()
		if out, _, code := at(t, "/", "", "wasmbox", "echo", "x"); out != "x\n" || code != 0 {
			t.Errorf("got %q, %d", out, code)
		}
		if _, errs, code := at(t, "/", "", "wasmbox"); code != 2 || !strings.Contains(errs, "sha256sum") {
			t.Errorf("got %q, %d", errs, code)
		}
	})
	t.Run("SBX-8 the shell tells where it ends, whatever the text does", func(t *testing.T) {
		t.Parallel()
		dir := place(t)
		for text, want := range map[string]string{"cd b": "/b", "cd b; exit 3": "/b", "true": "", "exec echo x": "", "set -e; cd b; false": "/b"} {
			_, errs, _ := at(t, dir, "", "bash", wasmbox.ReportOption, "MARK:", "-c", text)
			if !strings.HasSuffix(errs, "MARK:"+dir+want+"\x00") {
				t.Errorf("%q: got %q, want %s", text, errs, want)
			}
		}
	})
	t.Run("SBX-8 a text that is none is told with its place, arguments reach one that is", func(t *testing.T) {
		t.Parallel()
		if _, errs, code := at(t, "/", "", "sh", "-c", "if"); code != 2 || !strings.Contains(errs, "1:1") {
			t.Errorf("got %q, %d", errs, code)
		}
		if out, _, code := at(t, "/", "echo $1; exit 5", "sh"); out != "\n" || code != 5 {
			t.Errorf("from input: got %q, %d", out, code)
		}
		if out, _, _ := at(t, "/", "", "sh", "-ec", `echo $0 $1 $#; false; echo not`, "name", "-x", "b"); out != "name -x 2\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("SBX-8 who does not listen any more ends what is said", func(t *testing.T) {
		t.Parallel()
		r, w := io.Pipe()
		_ = r.Close()
		var errs bytes.Buffer
		if code := wasmbox.Main(t.Context(), wasmbox.Call{Args: []string{"cat", "/dev/zero"}, In: strings.NewReader(""), Out: w, Err: &errs, Dir: "/", Host: wasmbox.System{}}); code != 141 || errs.Len() > 0 {
			t.Errorf("got %d, %q", code, errs.String())
		}
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`print(1+1, "a", [1,{b:null}], undefined)`: "2 a [1,{\"b\":null}] undefined\n|0",
		`write("f", "x"); append("f", "y"); print(read("f"), exists("f"), exists("g"), list(".")); remove("f"); print(exists("f"))`: "xy true false [\"a.txt\",\"b\",\"f\"]\nfalse\n|0",
		`console.log(stdin().length, args.length, args[0]); exit(7)`:                                                                "3 1 one\n|7",
		`throw new Error("no")`: "js: Error: no",
		`read("none")`:          "none: no such file or directory",
		`let x = ;`:             "SyntaxError",
		`console.error("err"); [3,1,2].sort().map(n => print(n))`:                                                   "err\n1\n2\n3\n|0",
		`try { read("none") } catch (e) { print("caught") }`:                                                        "caught\n|0",
		`typeof require + typeof fetch + typeof process === "undefinedundefinedundefined" && print("nothing else")`: "nothing else\n|0",
	} {
		t.Run("SBX-8 js "+text, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			code := js.Main(t.Context(), js.Call{Args: []string{"js", "-e", text, "one"}, In: strings.NewReader("abc"), Out: &out, Err: &out, Dir: place(t)})
			if got := out.String() + "|" + string(rune('0'+code)); !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	t.Run("SBX-8 js ends with its context, and reads files with a first line for the shell", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out bytes.Buffer
		if code := js.Main(ctx, js.Call{Args: []string{"js", "-e", "for(;;);"}, Out: &out, Err: &out, Dir: "/"}); code != 1 {
			t.Errorf("got %d, %q", code, out.String())
		}
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/s", []byte("#!/usr/bin/env js\nprint('ran', args)"), 0o644); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		if code := js.Main(t.Context(), js.Call{Args: []string{"js", "s", "x"}, Out: &out, Err: &out, Dir: dir}); code != 0 || out.String() != "ran [\"x\"]\n" {
			t.Errorf("got %d, %q", code, out.String())
		}
		if code := js.Main(t.Context(), js.Call{Args: []string{"js"}, Out: &out, Err: &out, Dir: dir}); code != 2 {
			t.Errorf("without a script: got %d", code)
		}
	})
}
