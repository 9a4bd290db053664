/* How a step is cut into turns, and what threads of the host copy for them. */
#include "mover_state.h"

#include <stdlib.h>
#include <string.h>

#define UNIT_BYTES (UINT64_C(1) << 18) /* that one thread copies at a time, */
#define HUGE_PAGE (UINT64_C(1) << 21)  /* and of what is only read back: several that touched one first would each clear it */
#define ALIGNMENT UINT64_C(64)
#define PINNED_TURN_BYTES (UINT64_C(1) << 30)

static uint64_t piece_begin(const vyre_step *s, const vyre_move *move, uint64_t index) {
  return index == s->turns ? move->bytes : move->bytes / s->turns * index / ALIGNMENT * ALIGNMENT;
}

static uint64_t piece_bytes(const vyre_step *s, const vyre_move *move, uint64_t index) {
  return piece_begin(s, move, index + 1) - piece_begin(s, move, index);
}

static uint64_t aligned(uint64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static bool is_staged(const vyre_move *move) { return move->host && !move->direct; }

/* Whether the host copies for it, before its turn is handed over (up), or after that has ended (down). */
static bool is_copied(const vyre_move *move, bool is_down) {
  return move->is_down == is_down && (move->host || move->direct);
}

static uint64_t unit_bytes(const vyre_turn *t) { return t->of->only_reads ? HUGE_PAGE : UNIT_BYTES; }

/* By how much the first unit of a piece is shorter than the others: units end where huge pages do. */
static uint64_t first_gap(const vyre_turn *t, const vyre_move *move) {
  return t->of->only_reads ? ((uintptr_t)move->host + piece_begin(t->of, move, t->index)) % HUGE_PAGE : 0;
}

static uint64_t units_of(const vyre_turn *t, const vyre_move *move) {
  uint64_t bytes = piece_bytes(t->of, move, t->index), unit = unit_bytes(t);
  return bytes ? (first_gap(t, move) + bytes + unit - 1) / unit : 0;
}

static uint64_t area_bytes_of(const vyre_step *s, uint64_t index) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (is_staged(&s->moves[i])) bytes += aligned(piece_bytes(s, &s->moves[i], index));
  }
  return bytes;
}

/* The pieces of the first turn or of the last are the longest. */
void vyre_cut_into_turns(const vyre_mover *m, vyre_step *s) {
  uint64_t by_host = 0, all = 0;
  s->only_reads = true;
  for (size_t i = 0; i < s->count; i++) {
    s->only_reads &= s->moves[i].is_down;
    all += s->moves[i].bytes;
    if (s->moves[i].host) by_host += s->moves[i].bytes;
  }
  s->turns = all ? 1 + by_host / m->area_bytes + all / PINNED_TURN_BYTES : 0;
  while (s->turns && (area_bytes_of(s, 0) > m->area_bytes || area_bytes_of(s, s->turns - 1) > m->area_bytes)) s->turns++;
}

static uint64_t area_of(const vyre_mover *m, const vyre_turn *t) { return (uint64_t)(t - m->turns) * m->area_bytes; }

uint32_t vyre_regions_of(const vyre_mover *m, const vyre_turn *t, vyre_region *out) {
  uint64_t area = area_of(m, t);
  uint32_t count = 0;
  for (size_t i = 0; i < t->of->count; i++) {
    const vyre_move *move = &t->of->moves[i];
    uint64_t begin = piece_begin(t->of, move, t->index), bytes = piece_bytes(t->of, move, t->index);
    VkBuffer other = move->host ? m->areas : move->pinned;
    uint64_t other_offset = move->host ? area : move->pinned_offset + begin;
    if (is_staged(move)) area += aligned(bytes);
    if (move->direct || !bytes) continue;
    const vyre_region up = {other, other_offset, move->buffer, move->offset + begin, bytes, 0};
    const vyre_region down = {move->buffer, move->offset + begin, other, other_offset, bytes, 0};
    out[count++] = move->is_down ? down : up;
  }
  return count;
}

void vyre_begin_copies(vyre_mover *m, vyre_turn *t, bool is_down) {
  uint64_t units = 0;
  for (size_t i = 0; i < t->of->count; i++) {
    if (is_copied(&t->of->moves[i], is_down)) units += units_of(t, &t->of->moves[i]);
  }
  if (is_down) t->times.ended = vyre_now_ns();
  if (!is_down && !units) t->times.filled = vyre_now_ns();
  t->next_unit = 0;
  t->units = t->left = units;
  t->state = is_down ? (units ? TURN_EMPTIED : TURN_DONE) : (units ? TURN_FILLED : TURN_READY);
  if (units) pthread_cond_broadcast(&m->work);
}

static void copy_piece(const vyre_move *move, uint64_t begin, char *there, size_t bytes) {
  if (!move->host) {
    memset(there, 0, bytes);
  } else if (move->is_down) {
    memcpy(move->host + begin, there, bytes);
  } else {
    memcpy(there, move->host + begin, bytes);
  }
}

static void copy_unit(const vyre_mover *m, const vyre_turn *t, uint64_t unit, bool is_down) {
  uint64_t area = area_of(m, t);
  for (size_t i = 0; i < t->of->count; i++) {
    const vyre_move *move = &t->of->moves[i];
    uint64_t units = is_copied(move, is_down) ? units_of(t, move) : 0;
    uint64_t bytes = piece_bytes(t->of, move, t->index);
    if (unit < units) {
      uint64_t gap = first_gap(t, move), first = unit ? unit * unit_bytes(t) - gap : 0;
      uint64_t last = (unit + 1) * unit_bytes(t) - gap, begin = piece_begin(t->of, move, t->index) + first;
      char *there = move->direct ? move->direct + begin : m->memory + area + first;
      copy_piece(move, begin, there, (size_t)((last < bytes ? last : bytes) - first));
      return;
    }
    unit -= units;
    if (is_staged(move)) area += aligned(bytes);
  }
}

bool vyre_copy_one(vyre_mover *m) {
  for (uint64_t g = m->over; g < m->begun && !m->is_cancelled; g++) {
    vyre_turn *t = &m->turns[g % VYRE_AREAS];
    bool is_down = t->state == TURN_EMPTIED;
    if ((t->state != TURN_FILLED && !is_down) || t->next_unit == t->units) continue;
    uint64_t unit = t->next_unit++;
    m->copying++;
    pthread_mutex_unlock(&m->lock);
    copy_unit(m, t, unit, is_down);
    pthread_mutex_lock(&m->lock);
    m->copying--;
    if (!--t->left) {
      t->state = is_down ? TURN_DONE : TURN_READY;
      if (!is_down) t->times.filled = vyre_now_ns();
      vyre_advance(m);
      pthread_cond_signal(&m->changed);
    }
    if (m->is_cancelled && !m->copying) pthread_cond_broadcast(&m->done);
    return true;
  }
  return false;
}

static void complete_steps(vyre_mover *m) {
  for (const vyre_step *s = m->first; s; s = s->next) {
    if (s->number <= m->completed) continue;
    if (s->done < s->turns || s->number > m->ended + 1) return;
    m->completed = s->number;
    pthread_cond_broadcast(&m->done);
  }
}

static void drop_steps(vyre_mover *m) {
  while (m->first && m->first->number <= m->completed && m->first->number <= m->ended) {
    vyre_step *over = m->first;
    m->first = over->next;
    if (!m->first) m->last = NULL;
    free(over);
  }
}

void vyre_advance(vyre_mover *m) {
  while (m->over < m->begun && m->turns[m->over % VYRE_AREAS].state == TURN_DONE) {
    vyre_turn *t = &m->turns[m->over % VYRE_AREAS];
    t->of->done++;
    t->times.emptied = vyre_now_ns();
    m->times[m->over++ % VYRE_KEPT_TIMES] = t->times;
  }
  vyre_step *s = m->first;
  while (s && !m->is_cancelled && m->begun - m->over < VYRE_AREAS) {
    if (s->begun == s->turns) {
      s = s->next;
      continue;
    }
    vyre_turn *t = &m->turns[m->begun++ % VYRE_AREAS];
    *t = (vyre_turn){.of = s, .index = s->begun++, .times = {.step = s->number, .begun = vyre_now_ns()}};
    vyre_begin_copies(m, t, false);
  }
  complete_steps(m);
  drop_steps(m);
}
