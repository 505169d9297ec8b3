package org.example.shop;

public sealed interface Records permits Pair, Single {
  int count();
}

record Pair<A, B>(A left, B right) implements Records {
  static final Pair<?, ?> EMPTY = new Pair<>(null, null);

  Pair {
    if (left == right) throw new IllegalArgumentException();
  }

  Pair(A both, int times) {
    this(both, null);
  }

  public int count() {
    return 2;
  }

  <C> Pair<A, C> with(C right) {
    return new Pair<>(left, right);
  }

  record Inside(int x) {}
}

record Single(int value) implements Records {
  @Override
  public int count() {
    return 1;
  }
}

non-sealed class Other {
  void method() {
    record Local(int x) {}
    enum Kind { A }
    interface Shown { void show(); }
  }
}
