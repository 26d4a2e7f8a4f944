#include "tuner/best.h"

#include "base/log.h"
#include "polyhedral/alike.h"
#include "tuner/keys.h"

namespace weft::tuner {

using polyhedral::Choice;

std::optional<Choice> FindBest(const polyhedral::ScheduleRequest& request, TuningDb& db) {
  const auto record = db.Find(BestKeyOf(request));
  if (!record || !record->correct) return std::nullopt;
  const auto refuse = [](std::string_view why) {
    WEFT_LOG(kWarning, "tuner", "a choice on record is not used: {}", why);
    return std::nullopt;
  };
  const auto choices = polyhedral::ParseChoices(record->note, "record");
  if (!choices.ok()) return refuse(choices.status().ToString());
  if (choices->size() != 1) return refuse("it is not one");
  auto choice =
      polyhedral::InNamesOf(request, polyhedral::Nameless(request).request, choices->front());
  if (!choice.yes()) return refuse(choice.refusal().detail);
  return *std::move(choice);
}

void StoreBest(const polyhedral::ScheduleRequest& request, const Choice& choice,
               TuningRecord record, TuningDb& db) {
  const auto nameless =
      polyhedral::InNamesOf(polyhedral::Nameless(request).request, request, choice);
  if (!nameless.yes()) return;
  record.note = polyhedral::Print(*nameless);
  db.Store(BestKeyOf(request), record);
}

}  // namespace weft::tuner
