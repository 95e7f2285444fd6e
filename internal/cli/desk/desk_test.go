package desk

import (
	"errors"
	"fmt"
	"testing"
)

func TestALineAnswersTheOnlyQuestion(t *testing.T) {
	var d Desk
	d.Put("r_1", "for your information", false)
	d.Put("r_2", "ship it?", true)
	it, text, err := d.Resolve(" yes, please ", d.Aim())
	if err != nil || it.ID != "r_2" || text != "yes, please" {
		t.Errorf("Resolve = %+v, %q, %v", it, text, err)
	}
}

func TestANumberSaysWhichQuestion(t *testing.T) {
	var d Desk
	d.Put("r_1", "a", true)
	d.Put("r_2", "b", true)
	d.Put("r_3", "c", false)
	for line, want := range map[string]string{"#1 x": "r_1", "#2: x": "r_2", "#3 x": "r_3", "  #2   x ": "r_2"} {
		it, text, err := d.Resolve(line, d.Aim())
		if err != nil || it.ID != want || text != "x" {
			t.Errorf("Resolve(%q) = %+v, %q, %v; want %s", line, it, text, err, want)
		}
	}
	if _, _, err := d.Resolve("#2", d.Aim()); !errors.Is(err, ErrNoText) {
		t.Errorf("a number alone = %v", err)
	}
	var gone *GoneError
	if _, _, err := d.Resolve("#9 x", d.Aim()); !errors.As(err, &gone) {
		t.Errorf("an unknown number = %v", err)
	}
}

func TestSeveralOpenQuestionsNeedANumber(t *testing.T) {
	var d Desk
	d.Put("r_1", "a", true)
	d.Put("r_2", "b", true)
	var several *SeveralError
	if _, _, err := d.Resolve("yes", d.Aim()); !errors.As(err, &several) || len(several.Items) != 2 {
		t.Errorf("Resolve = %v", err)
	}
}

// Public case 64: a late answer resolved a newer question.
func TestCase064ALateAnswerNeverReachesANewerQuestion(t *testing.T) {
	var d Desk
	d.Put("r_1", "old", true)
	aim := d.Aim() // the person begins to type
	d.Settle("r_1", Elsewhere)
	d.Put("r_2", "new", true)
	var gone *GoneError
	if it, _, err := d.Resolve("yes", aim); !errors.As(err, &gone) || gone.State != Elsewhere {
		t.Errorf("Resolve = %+v, %v; want that #1 is gone", it, err)
	}
}

func TestAQuestionThatComesWhileTypingDoesNotStealTheAnswer(t *testing.T) {
	var d Desk
	d.Put("r_1", "old", true)
	aim := d.Aim()
	d.Put("r_2", "new", true)
	if it, _, err := d.Resolve("yes", aim); err != nil || it.ID != "r_1" {
		t.Errorf("Resolve = %+v, %v", it, err)
	}
	if _, _, err := d.Resolve("yes", Aim{}); !errors.Is(err, ErrNothingOpen) {
		t.Errorf("a line begun before any question = %v", err)
	}
}

func TestTextMayBeginWithANumberSign(t *testing.T) {
	var d Desk
	d.Put("r_1", "which channel?", true)
	for line, want := range map[string]string{"##general": "#general", "##1 x": "#1 x", "#general": "#general", "2 apples": "2 apples", "#0 x": "#0 x"} {
		if _, text, err := d.Resolve(line, d.Aim()); err != nil || text != want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", line, text, err, want)
		}
	}
}

func TestSettleTellsWhatWas(t *testing.T) {
	var d Desk
	d.Put("r_1", "a", true)
	if it, ok := d.Settle("r_1", Answered); !ok || it.State != Open {
		t.Errorf("first Settle = %+v, %v", it, ok)
	}
	if it, ok := d.Settle("r_1", Elsewhere); !ok || it.State != Answered {
		t.Errorf("second Settle = %+v, %v", it, ok)
	}
	if _, ok := d.Settle("r_9", Answered); ok {
		t.Error("an unknown id was found")
	}
	if len(d.Open()) != 0 {
		t.Errorf("open = %v", d.Open())
	}
}

func TestDeskIsBounded(t *testing.T) {
	var d Desk
	for i := range 3 * kept {
		d.Put(fmt.Sprint(i), "", true)
	}
	if got := d.Open(); len(got) != kept || got[0].Number != 2*kept+1 {
		t.Errorf("%d items, the first is %+v", len(got), got[0])
	}
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"yes", "#1 yes", "##x", "#", "# 1", "#99999999999999999999 x", "#-1 x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var d Desk
		d.Put("r_1", "a", true)
		it, text, err := d.Resolve(line, d.Aim())
		if err == nil && (it.ID != "r_1" || len(text) > len(line)) {
			t.Errorf("Resolve(%q) = %+v, %q", line, it, text)
		}
	})
}
