package llm

import "unicode/utf8"

// charsPerToken is the usual rule of thumb for English text and code.
const charsPerToken = 4

// EstimateUsage guesses the tokens of one exchange from its characters, four a token, rounded up, and the estimates of
// its images. It is for models and servers that report no usage; the answer has Estimated set.
func EstimateUsage(req Request, answer Answer) Usage {
	in := utf8.RuneCountInString(req.System) + len(req.Schema)
	for _, t := range req.Tools {
		in += len(t.Name) + utf8.RuneCountInString(t.Description) + len(t.Input)
	}
	shown := 0
	for _, m := range req.Messages {
		in += utf8.RuneCountInString(m.Text) + callChars(m.Calls)
		for _, r := range m.Results {
			in += utf8.RuneCountInString(r.Output)
			for _, i := range r.Images {
				shown += i.Tokens
			}
		}
	}
	out := utf8.RuneCountInString(answer.Text) + utf8.RuneCountInString(answer.Thinking) + callChars(answer.Calls)
	return Usage{Input: tokens(in) + shown, Output: tokens(out), Estimated: true}
}

func callChars(calls []Call) int {
	n := 0
	for _, c := range calls {
		n += len(c.Name) + len(c.Input)
	}
	return n
}

func tokens(chars int) int { return (chars + charsPerToken - 1) / charsPerToken }
