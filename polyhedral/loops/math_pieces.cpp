// f32 functions by pieces: their argument's place says which of sixteen polynomials it is, and the
// coefficients of each degree stand in a register. That takes fewer multiplications than one
// polynomial for all arguments, or exp and a division. Each piece has its polynomial in the
// distance from where the piece lies, for the least relative error (Lawson's iteration), the
// coefficients of lower degrees rounded to f32 in front of those of higher.
#include <array>
#include <cmath>
#include <span>

#include "polyhedral/loops/math_parts.h"

namespace weft::loops {
namespace {

using Row = std::array<float, 16>;  // of one coefficient, the pieces' values

Value PiecewisePolynomial(Value x, Value piece, std::span<const Row> c) {
  Value sum = Pick(piece, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = Fma(sum, x, Pick(piece, c[i]));
  return sum;
}

// exp(x) * 2^more = value * 2^floor(n), where n is a whole number of sixteenths.
struct Sixteenths {
  Value n, value;
};

// x = k ln 2 + r, k in sixteenths: 2^k apart from its whole doublings, times Taylor's polynomial of
// r.
Sixteenths SplitInSixteenths(Value x, double more) {
  static constexpr Row kPowers = {1,           1.04427373F, 1.09050775F, 1.13878858F,
                                  1.18920708F, 1.24185777F, 1.29683959F, 1.35425556F,
                                  1.41421354F, 1.47682619F, 1.54221082F, 1.61049032F,
                                  1.68179286F, 1.75625217F, 1.8340081F,  1.91520655F};
  constexpr double kSixteenths = 0x1.8p19;  // leaves them in the low bits
  const FloatFormat& f = FormatOf(x);
  const Value shifted = Fma(x, 1.4426950408889634, x.Of(kSixteenths + more));
  const Value k = shifted - (kSixteenths + more);
  const Value r = Fma(k, -f.ln2_lo, Fma(k, -f.ln2_hi, x));
  const Value em1 = Fma(r * r, Fma(r, 1.0 / 6, x.Of(0.5)), r);
  const Value power = Pick(shifted.Bits(), kPowers);
  return {shifted - kSixteenths, Fma(power, em1, power)};
}

}  // namespace

// As Exp says. 1.1 ulp.
Value ExpByPieces(Value x, bool at_most_zero) {
  const Value vanishes = Vanishes(x), zero = x.Of(0.0);
  const Value bounded = at_most_zero ? x : AtMost(89.0, x);
  const Sixteenths e = SplitInSixteenths(Select(vanishes, zero, bounded), 0);
  return Select(vanishes, zero, Ldexp(e.value, e.n));
}

// As Sigmoid says, whose s this is, too; from x = 60 on exp(-x) no longer shows. 3.3 ulp.
Value SigmoidByPieces(Value x) {
  const FloatFormat& f = FormatOf(x);
  const auto k = static_cast<double>(f.fraction_bits);
  constexpr double kInfinite = -105.0;  // s exp(-x) is, from there on
  const Sixteenths e = SplitInSixteenths(-AtLeast(kInfinite, AtMost(60.0, x)), -k);
  const Value s = x.Of(std::ldexp(1.0, -static_cast<int>(f.fraction_bits)));
  return s / (Ldexp(e.value, e.n) + s);
}

// Piece k: |x| within 1/8 of k/4. The last polynomial is 1 at its end, and so from there on. 2.2
// ulp.
Value ErfByPieces(Value x) {
  constexpr double kEnd = 0x1.effffep1;   // the last f32 before 3.875, which is nearer to 4
  constexpr double kQuarters = 0x1.8p21;  // leaves them in the low bits
  static constexpr Row kC[] = {
      {0, 0.276326388F, 0.520499885F, 0.711155653F, 0.842700779F, 0.92290014F, 0.966105163F,
       0.986671686F, 0.995322287F, 0.998537302F, 0.999593019F, 0.999899387F, 0.999977887F,
       0.999995708F, 0.999999285F, 0.999999881F},
      {1.12837923F, 1.06001425F, 0.87878263F, 0.642931104F, 0.415107489F, 0.236521125F,
       0.118930288F, 0.0527749956F, 0.0206669867F, 0.00714231934F, 0.00217828411F, 0.000586277281F,
       0.000139253054F, 2.91890265e-05F, 5.39942675e-06F, 1.01043213e-06F},
      {-1.48062509e-05F, -0.264999002F, -0.439388424F, -0.482204586F, -0.4151012F, -0.29565984F,
       -0.17840609F, -0.0923649222F, -0.0413452759F, -0.0160793457F, -0.00543084368F,
       -0.00161678949F, -0.000406031555F, -0.000100564794F, -3.30831099e-05F, 3.26414192e-06F},
      {-0.375540733F, -0.309197634F, -0.146480381F, 0.0267740581F, 0.13837105F, 0.167533949F,
       0.138752192F, 0.090157792F, 0.0482229702F, 0.0217245333F, 0.0083500687F, 0.00276029995F,
       0.000789053738F, 0.000195788496F, 4.22883058e-05F, 1.07196265e-05F},
      {-0.00738699408F, 0.126092896F, 0.182127818F, 0.150668636F, 0.0688533857F, -0.00528872991F,
       -0.0436162278F, -0.0474069975F, -0.0337145701F, -0.0185448807F, -0.00961670745F,
       -0.00299455971F, -0.00180588872F, 7.38074232e-05F, 0.000838126172F, -0.000368241628F},
      {0.141611323F, 0.0811297297F, 0.00833113305F, -0.0520825274F, -0.0690600574F, -0.0470031761F,
       -0.0149371335F, 0.00650228141F, 0.0130324038F, 0.0106476676F, 0.00612733606F, 0.00277144928F,
       0.00102563202F, 0.000317814498F, 8.34911189e-05F, 1.87543028e-05F}};
  const Value a = AtMost(kEnd, Abs(x)), shifted = a + kQuarters;
  return WithSign(PiecewisePolynomial(a - (shifted - kQuarters), shifted.Bits(), kC), x);
}

// Pieces end where |x| + 3/4 has another exponent or other first two bits behind it, so that they
// grow with it: the last bits of the exponent and these two are the piece's number. 1.6 ulp.
Value TanhByPieces(Value x) {
  constexpr double kEnd = 9.02, kOffset = 0.75;
  constexpr int64_t kFieldShift = 21;
  static constexpr Row kC[] = {
      {0.848283589F, 0.941375554F, 0.978026092F, 0.991859734F, 0.996997654F, 0.999593139F,
       0.999944925F, 0.999992549F, 0.999998987F, 0, 0, 0.124352999F, 0.244918674F, 0.462117165F,
       0.635148942F, 0.761594176F},
      {0.280422837F, 0.113810636F, 0.0434666388F, 0.0162131451F, 0.00599270826F, 0.000813384773F,
       0.000110251247F, 1.47666869e-05F, 2.13847579e-06F, 0, 1, 0.984537542F, 0.940011442F,
       0.786445618F, 0.596588016F, 0.419970572F},
      {-0.238069713F, -0.107118018F, -0.0425289162F, -0.0160599705F, -0.0059367721F,
       -0.000809105986F, -0.000110616013F, -1.37362213e-05F, -2.52307495e-06F, 0, 3.11899356e-07F,
       -0.122512385F, -0.230073392F, -0.363343388F, -0.378999829F, -0.319740683F},
      {0.110127114F, 0.0628224239F, 0.0271296315F, 0.0103864288F, 0.00376670039F, 0.000518269953F,
       7.30673055e-05F, 6.4334331e-06F, 2.03788272e-06F, 0, -0.333355635F, -0.311064333F,
       -0.259433687F, -0.0955254138F, 0.0428111404F, 0.102571875F},
      {-0.0202848166F, -0.0234784838F, -0.0121469442F, -0.00457576057F, -0.00153324998F,
       -0.000214503481F, -3.22647029e-05F, -4.1676816e-07F, -9.60160264e-07F, 0, 0.000472811429F,
       0.0628218353F, 0.157529563F, 0.173888177F, 0.094377175F, 0.0307494216F},
      {-0.00320598017F, 0.00445869658F, 0.00321744336F, 0.00108779012F, 0.000306156406F,
       4.37537383e-05F, 7.18686442e-06F, -6.07924449e-07F, 1.86010951e-07F, 0, 0.129985914F,
       0.161941752F, 0.0138128223F, -0.0587089621F, -0.053119339F, -0.043222703F}};
  const Value a = AtMost(kEnd, Abs(x)), bits = (a + kOffset).Bits();
  const Value start = Shl(Shr(bits, kFieldShift), kFieldShift).Real() - kOffset;
  return WithSign(PiecewisePolynomial(a - start, Shr(bits, kFieldShift), kC), x);
}

}  // namespace weft::loops
